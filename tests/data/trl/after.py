"""The same script with VPO: each function is an objective. `python after.py MODEL OUT`"""

import sys

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from vpo_lite.integrations.trl import SetReward


def correct(completions, total, **columns):
    return [float(str(t) in text) for text, t in zip(completions, total, strict=True)]


def brief(completions, **columns):
    return [1 / (1 + len(text)) for text in completions]


sums = [(a, b) for a in range(4) for b in range(4)]
rows = [{"prompt": f"{a} + {b} = ?", "total": a + b} for a, b in sums]
reward = SetReward.of_functions([correct, brief], answers=3)
dataset = Dataset.from_list(rows).map(reward.ask)

trainer = GRPOTrainer(
    model=sys.argv[1],
    reward_funcs=reward,
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
