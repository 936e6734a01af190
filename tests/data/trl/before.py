"""A script for TRL: two reward functions on a data set of sums. `python before.py MODEL OUT`"""

import sys

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer


def correct(completions, total, **columns):
    return [float(str(t) in text) for text, t in zip(completions, total, strict=True)]


def brief(completions, **columns):
    return [1 / (1 + len(text)) for text in completions]


sums = [(a, b) for a in range(4) for b in range(4)]
rows = [{"prompt": f"{a} + {b} = ?", "total": a + b} for a, b in sums]
dataset = Dataset.from_list(rows)

trainer = GRPOTrainer(
    model=sys.argv[1],
    reward_funcs=[correct, brief],
    args=GRPOConfig(
        output_dir=sys.argv[2],
        max_steps=2,
        num_generations=4,
        per_device_train_batch_size=8,
        max_completion_length=48,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        bf16=False,
    ),
    train_dataset=dataset,
)
trainer.train()
