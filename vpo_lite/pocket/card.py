"""The model card of a pocket policy, in Markdown."""

import dataclasses

from .demonstrations import FIRST_SEED, MOST_ROUTES

COLUMNS = {
    "parse": "parse",
    "reach": "reach E",
    "distinct": "rollouts with m different routes",
    "treasure": "of those that reach E: some treasure",
    "lava": "touched lava",
}


def model_card(config, name: str, parameters: int, figures: dict, seeds) -> str:
    """How a pocket policy was made and what it can do.

    - config: its ``PretrainConfig``
    - parameters: how many it has
    - figures: those of ``held_out_figures``, by layout, measured on the mazes with these seeds
    """
    changed = [
        f"--{field.name.replace('_', '-')} {getattr(config, field.name)}"
        for field in dataclasses.fields(config)
        if getattr(config, field.name) != field.default
    ]
    command = " ".join(["vpo-lite pretrain --out", name, *changed])
    table = [["mazes", "m", *COLUMNS.values()], ["---"] * (2 + len(COLUMNS))]
    for layout, by_m in figures.items():
        for m, shares in by_m.items():
            values = ["-" if shares[c] is None else f"{100 * shares[c]:.1f} %" for c in COLUMNS]
            table.append([f"`{layout}`", m, *values])
    rows = "\n".join(f"| {' | '.join(row)} |" for row in table)
    also = mixed = ""
    if config.smaller_share:
        smaller = ", ".join(f"`{layout}`" for layout in config.layouts[1:])
        also = f" or of a smaller preset ({smaller})"
        mixed = f" A share of {config.smaller_share} of the batches comes from the smaller presets."
    return f"""# {name}

A causal language model with {parameters / 1e6:.2f} million parameters ({config.layers} layers of
width {config.width}, Llama architecture) that reads a maze of the preset `{config.layout}`{also}
and writes m = 1 to {MOST_ROUTES} routes through it. It stands in for a pretrained language model:
it knows the format and how to walk, and is undecided about gold, diamonds and lava, so that
reinforcement learning has something to teach. It is good for nothing else.

Made by `{command}`
from drawn demonstrations: {config.updates:,} updates of {config.batch} demonstrations on
{config.mazes:,} mazes (seeds from {FIRST_SEED:,}), of which a share of {config.drawn_share} is
replaced by freely drawn boards. Seed {config.seed}. The demonstrations go straight to the exit
(45 %), by some free square (25 %) or by one gold or diamond (30 %); 40 % avoid lava.{mixed}

Sampled at temperature 1 on {len(seeds)} held-out mazes (seeds {seeds[0]} to {seeds[-1]}), one
rollout each:

{rows}

Licence: Apache-2.0. Made from no data but the generator's.
"""
