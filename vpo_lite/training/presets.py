"""Settings of a run that belong together, by a name."""

_COLUMNS = ["steps", "prompts", "group_size", "K", "lr", "rank", "lora_alpha", "kl", "eps"]
_COLUMNS += ["temperature", "save_every"]
_VALUES = {
    # one problem, live, CPU
    "demo": (40, 4, 16, 64, 1e-3, 16, 32, 0.0, 1e-4, 1.0, 1),
    # as many answers, in smaller steps that explore more: for vpo_recombined
    "patient": (80, 2, 16, 64, 1e-3, 16, 32, 0.0, 1e-4, 1.2, 1),
    # many problems, CPU, minutes
    "laptop": (250, 16, 8, 64, 4e-4, 16, 32, 1e-3, 1e-4, 1.0, 1),
    # many problems or a Hugging Face model, one GPU; states are stored every 10 steps, since each
    # holds the adapter and its two moments: 0.9 GiB for a model of 7B at this rank
    "gpu": (300, 32, 16, 100, 2e-4, 32, 64, 1e-3, 1e-6, 1.0, 10),
    # the paper's, with LoRA; 16 steps of 128 prompts are 2 epochs of the 1,000 problems of its
    # release, while its plot shows about 93
    "paper": (16, 128, 8, 100, 1e-5, 64, 128, 1e-3, 1e-6, 1.0, 10),
}

PRESETS = {name: dict(zip(_COLUMNS, row, strict=True)) for name, row in _VALUES.items()}
# what only the release's code has: two updates in a step, veRL's dual clip, weight decay
PRESETS["paper"] |= {"mini_batches": 2, "dual_clip": 3.0, "weight_decay": 0.01}
