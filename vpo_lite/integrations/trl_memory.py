"""How much memory a run on TRL needs in each process, stated before it starts: an estimate."""

from ..policy.decoder import DecoderView
from ..policy.policy import Policy
from ..training.config import TrainConfig
from ..training.memory import Decoder, Memory, lengths
from ..training.problems import token_limit
from .trl_setup import shared

TOKENS, WORDS = 4096, 32768  # tokens and vocabulary of one tile of TRL 1.16's output layer


def memory_needed(policy: Policy, config: TrainConfig, task=None, processes: int = 1) -> Memory:
    """The memory that each process of a run on TRL needs, by the letters of
    :func:`vpo_lite.training.memory.memory_needed`.

    A process samples R = P G / processes rollouts, and runs b of them at once in the update.

    - parameters: the base
    - adapter: LoRA, its gradients and AdamW's two moments. Of several processes, each keeps the
      gradients once more, to send them.
    - activations: those of N = b (L + T) tokens in whole rows
    - logits: TRL projects n tokens onto the vocabulary tile by tile: n = N, on a GPU n = b T. A
      tile has t = min(n, 4096) rows of 32,768 numbers, whatever the vocabulary is. Without a GPU
      six more of t min(V, 32768) numbers in float32 come on top. The gradient takes 4 n H bytes.
    - sampling: keys and values of R (L + T) tokens, one layer's twice, and either the numbers of
      one layer while the prompts are read or four numbers for each logit of one token. What is
      measured is sampled natively, with the sampler's copies. The larger of the two counts.

    It holds for TRL 1.16 with ``generate`` and whole parameters in every process.
    tests/test_trl_memory.py compares it with what the trainer allocates on the CPU.
    """
    task = task or config.make_task()
    L, T = lengths(policy, config, task)[0], token_limit(task, config, policy.pocket)
    model = Decoder.of(policy, config.rank)
    rows, b = shared(config, processes)
    N, gpu = b * (L + T), policy.device.type == "cuda"
    n = b * T if gpu else N
    tile = model.s * WORDS + (0 if gpu else 6 * 4 * min(model.V, WORDS))
    keys = model.s * model.cached * rows * (L + T)
    sampling = keys + keys // model.layers + max(model.reading(rows, L), 16 * rows * model.V)
    return Memory(
        parameters=model.base,
        adapter=(4 + (processes > 1)) * model.trained,
        activations=model.activations(N, N, b * (L + T) ** 2, config.gradient_checkpointing),
        logits=min(n, TOKENS) * tile + 4 * n * model.H,
        sampling=max(sampling, model.copied(model.s) if DecoderView.knows(policy.model) else 0),
    )
