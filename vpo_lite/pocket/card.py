"""The model card of a pocket policy, in Markdown."""

from ..tasks import DEFAULT


def model_card(recipe, name: str, parameters: int, figures: dict, seeds) -> str:
    """How a pocket policy was made and what it can do.

    - recipe: its ``Recipe``
    - parameters: how many it has
    - figures: those of ``held_out_figures``, by what was measured, on problems with these seeds
    """
    changed = [
        f"{option.flag} {getattr(recipe, option.name)}"
        for option in recipe.options()
        if getattr(recipe, option.name) != option.default
    ]
    task = [] if recipe.task == DEFAULT else ["--task", recipe.task]
    command = " ".join(["vpo-lite pretrain", *task, "--out", name, *changed])
    table = [[recipe.problems, "m", *recipe.columns.values()], ["---"] * (2 + len(recipe.columns))]
    for what, by_m in figures.items():
        for m, shares in by_m.items():
            values = [
                "-" if shares[c] is None else f"{100 * shares[c]:.1f} %" for c in recipe.columns
            ]
            table.append([f"`{what}`", m, *values])
    rows = "\n".join(f"| {' | '.join(row)} |" for row in table)
    reads, shows = recipe.story()
    held_out = f"{len(seeds)} held-out {recipe.problems} (seeds {seeds[0]} to {seeds[-1]})"
    return f"""# {name}

A causal language model with {parameters / 1e6:.2f} million parameters ({recipe.layers} layers of
width {recipe.width}, Llama architecture) {reads}

Made by `{command}`
from drawn demonstrations: {recipe.updates:,} updates of {recipe.batch} demonstrations {shows}

Sampled at temperature 1 on {held_out}, one
rollout each:

{rows}

Licence: Apache-2.0. Made from no data but the generator's.
"""
