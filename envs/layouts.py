"""The recipes that mazes are drawn from: layouts, the presets, and which seeds are for what."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

from ._grid import shown
from .describe import ZONE_RADIUS
from .front import LARGEST_ITEMS

LARGEST_SEED = 2**63
SEEDS = {  # separate ranges, so that no maze of an evaluation was ever trained on
    "held_out": range(10_000),
    "training": range(10_000, 1_000_000),
    "pretraining": range(1_000_000, LARGEST_SEED),
}

ZONE_SQUARES = sum(range(1, ZONE_RADIUS + 2))  # squares within that radius of a corner


@dataclass(frozen=True)
class Layout:
    """The recipe of a family of mazes; :func:`envs.generate` draws from it.

    S and E lie on opposite corners of a random diagonal. Gold lies near one of the two other
    corners, diamonds near the other; these are the treasure corners. Every maze drawn keeps four
    rules, but for the flaws named below:

    - A lava-free path to E fits the budget.
    - A path through either treasure corner fits the budget.
    - A path through both treasure corners, in either order, does not fit.
    - No route is best at everything: the Pareto front has at least two points.

    The presets are frozen with two flaws, both because a walk ends on E. In about 1 of 4,000 mazes
    of ``hard-8x8`` all paths to a treasure corner lead through E, which :meth:`envs.Maze.describe`
    shows. In 1 of 1,500 of ``hard-8x8`` and ``lite-6x6`` an item lies behind E, which no rule of
    `describe` checks. Other layouts have neither.

    Attributes:
        name: part of the random key; layouts of one name and one seed start from the same draws.
        size: n of the n x n grid, 4 to 12.
        walls: (least, most) walls, scattered over the grid; ignored when `openings` is given.
        openings: (least, most) walls opened in a maze of randomised Prim, or all between open
            squares if fewer. None scatters walls instead.
        gold, diamonds: (least, most) squares near their corner, each at most 6.
        lava: (least, most) squares, at most n * n.
        tempting_lava: True puts lava on a shortest path from S to E or beside treasure. False puts
            it at least two squares off the border, and no more than fits.
        treasure_on_corner: each treasure corner itself holds an item, so no route takes everything.
        bonus: a bonus square in the centre; it acts in the reward mode ``convex_bonus`` alone.
        slack: budget minus the longer of the two paths through a treasure corner, 0 to 4n moves.
        largest_budget: a larger budget is cut to this, at least 2(n - 1) moves. None cuts nothing.

    Raises:
        ValueError: a value outside these ranges, more gold, diamonds and lava than the exact front
            takes (16; a bonus, not counted here, is one more in ``convex_bonus``), items of one
            kind alone, or more lava than fits inside.

    >>> Layout("mine", size=5, gold=(1, 2)).walls
    (6, 9)
    """

    name: str = "custom"
    size: int = 6
    walls: tuple[int, int] = (6, 9)
    openings: tuple[int, int] | None = None
    gold: tuple[int, int] = (2, 3)
    diamonds: tuple[int, int] = (2, 3)
    lava: tuple[int, int] = (2, 4)
    tempting_lava: bool = True
    treasure_on_corner: bool = True
    bonus: bool = False
    slack: int = 2
    largest_budget: int | None = None

    def __post_init__(self):
        _check(isinstance(self.name, str), "name", self.name, "a string")
        whole = isinstance(self.size, Integral) and 4 <= self.size <= 12
        _check(whole, "size", self.size, "a whole number from 4 to 12")
        squares = self.size**2
        _check_span("walls", self.walls, squares)
        if self.openings is not None:
            _check_span("openings", self.openings, squares)
        _check_span("gold", self.gold, ZONE_SQUARES)
        _check_span("diamonds", self.diamonds, ZONE_SQUARES)
        _check_span("lava", self.lava, squares)
        for name in ("tempting_lava", "treasure_on_corner", "bonus"):
            value = getattr(self, name)
            _check(isinstance(value, bool), name, value, "True or False")
        items = self.gold[1] + self.diamonds[1] + self.lava[1]
        if items > LARGEST_ITEMS:
            raise ValueError(
                f"gold, diamonds, lava: up to {items} items together, but the exact front takes at "
                f"most {LARGEST_ITEMS}; lower their upper ends"
            )
        if sum(most > 0 for _, most in (self.gold, self.diamonds, self.lava)) < 2:
            raise ValueError(
                f"gold={self.gold}, diamonds={self.diamonds}, lava={self.lava}: allow at least one "
                "item of two kinds; with one kind alone nothing conflicts"
            )
        inside = (self.size - 4) ** 2
        if not self.tempting_lava and self.lava[0] > inside:
            raise ValueError(
                f"lava={self.lava}: at size={self.size} only {inside} squares lie two or more off "
                "the border; set tempting_lava=True, or lower lava"
            )
        if self.treasure_on_corner and not (self.gold[0] and self.diamonds[0]):
            raise ValueError(
                "treasure_on_corner: needs at least one gold and one diamond, got "
                f"gold={self.gold} and diamonds={self.diamonds}; set treasure_on_corner=False"
            )
        most = 4 * self.size
        whole = isinstance(self.slack, Integral) and 0 <= self.slack <= most
        _check(whole, "slack", self.slack, f"a whole number from 0 to {most}")
        least = 2 * (self.size - 1)
        cut = self.largest_budget
        _check(
            cut is None or (isinstance(cut, Integral) and cut >= least),
            "largest_budget",
            cut,
            f"None or a whole number from {least}, the shortest path between opposite corners",
        )


def _check(holds, name, value, expected):
    if not holds:
        raise ValueError(f"{name}: got {shown(value)}, expected {expected}")


def _check_span(name, span, most):
    pair = isinstance(span, tuple) and len(span) == 2 and all(isinstance(x, Integral) for x in span)
    holds = pair and 0 <= span[0] <= span[1] <= most
    _check(holds, name, span, f"(least, most) with 0 <= least <= most <= {most}")


PRESETS = {
    layout.name: layout
    for layout in (
        Layout(
            "tiny-4x4", size=4, walls=(1, 3), gold=(1, 1), diamonds=(1, 1), lava=(1, 1), slack=0
        ),
        # frozen: the policies that ship are trained on it
        Layout(
            "lite-6x6",
            size=6,
            walls=(6, 9),
            gold=(2, 3),
            diamonds=(2, 3),
            lava=(2, 4),
            slack=2,
            largest_budget=18,
        ),
        Layout(
            "hard-8x8", size=8, walls=(14, 20), gold=(3, 4), diamonds=(3, 4), lava=(4, 7), slack=2
        ),
        # the rules of the paper's own generator (arXiv 2605.22817)
        Layout(
            "paper-9x9",
            size=9,
            openings=(18, 28),
            gold=(3, 5),
            diamonds=(3, 5),
            lava=(3, 5),
            tempting_lava=False,
            treasure_on_corner=False,
            bonus=True,
            slack=7,
        ),
    )
}

# As they were first used, with their flaws. A preset that is added later does not belong here.
FROZEN = tuple(PRESETS[name] for name in ("tiny-4x4", "lite-6x6", "hard-8x8", "paper-9x9"))
