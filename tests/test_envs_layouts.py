"""Every generated maze keeps the rules of envs/layouts.py, and never changes."""

import collections
import dataclasses
import hashlib
import os
import pickle
import subprocess
import sys

import pytest

import envs

PRESETS = sorted(envs.PRESETS)
# A tenth of the seeds that `make bench` walks through.
SEEDS = range(100)

FROZEN = {  # of so many mazes, from seed 0
    "tiny-4x4": (50, "5082a95476a41e22127fb72e50b79e7c14844ea99402a9be5039d21e77e4441c"),
    "lite-6x6": (200, "33ce91e6d644311db376abf4b152acb9e7d37ec1a3e01e11e7f3287325042298"),
    "hard-8x8": (50, "2a3341f92eb45354a431adf5984621fef09b098fe96ae4c6a9b998e5b2c657b3"),
    "paper-9x9": (50, "c94fddae0b3e8bc484cefe4711f426317880a49e2f7eb02c3db08c8000a2da2e"),
}

PINNED = {
    ("tiny-4x4", 3): (6, "E . . G\n. . L .\n. . # .\nD . . S"),
    ("lite-6x6", 0): (
        16,
        "G G # # . E\n. # . . . .\n. . . . . .\n. . . . . L\n. . # L D .\nS # # . . D",
    ),
    ("lite-6x6", 1000): (
        18,
        "E . . D D D\n. # # . # #\n. . . . L L\nG # L . . .\n. # . L . .\nG # # . # S",
    ),
    ("lite-6x6", 1_000_000): (
        18,
        "D D . . . E\n. # . L . .\n. L . # . .\n. . . . . #\n. . # # G L\nS # . . G G",
    ),
    ("hard-8x8", 1): (
        22,
        "S . . . . G # G\n. # . . # . G G\n. . . . # . . #\n. L L . . . . #\n"
        ". # . . # . # .\nD # . . . . . .\nL D L . . . # .\nD . D # # . # E",
    ),
    ("paper-9x9", 3): (
        25,
        "G # . . . . # . E\nG G . . . . . . .\nG . . L . . L . .\n. . . L . . . . .\n"
        ". . . # B # # . #\n. . . . L . . . .\n. . L . . . . . D\n. . . . . . . # D\n"
        "S . . . . . D D D",
    ),
}


def steps_from(maze, start, forbidden=()):
    """Breadth-first search in its plainest form, independent of the package's bit boards."""
    rows = [line.split() for line in maze.text.splitlines()]
    steps, queue = {start: 0}, collections.deque([start])
    while queue:
        r, c = queue.popleft()
        for there in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)):
            inside = 0 <= there[0] < len(rows) and 0 <= there[1] < len(rows[0])
            if (
                inside
                and rows[there[0]][there[1]] != "#"
                and there not in steps
                and there not in forbidden
            ):
                steps[there] = steps[r, c] + 1
                queue.append(there)
    return steps


def corners_of(maze):
    """(gold corner, diamond corner): the corners without S or E, gold lies nearer to the first."""
    last = maze.size - 1
    others = [
        c for c in ((0, 0), (0, last), (last, 0), (last, last)) if c not in (maze.start, maze.exit)
    ]
    assert len(others) == 2
    by_gold = sorted(others, key=lambda corner: min(near(corner, item) for item in maze.gold))
    return by_gold


def near(a, b):
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


@pytest.mark.parametrize(("preset", "seed"), PINNED)
def test_text_and_budget_are_pinned(preset, seed):
    maze = envs.generate(preset, seed)
    assert (maze.budget, maze.text) == PINNED[preset, seed]


def test_every_preset_is_pinned_and_a_new_one_has_no_flaws():
    """One that stands in generator.FROZEN breaks rules that all others keep."""
    assert set(FROZEN) == set(PRESETS) == {preset for preset, _ in PINNED}
    first = {"tiny-4x4", "lite-6x6", "hard-8x8", "paper-9x9"}
    assert {n for n, layout in envs.PRESETS.items() if layout in envs.generator.FROZEN} == first


@pytest.mark.parametrize("preset", FROZEN)
def test_mazes_are_frozen(preset):
    """Policies and studies rest on them: if this fails, change the code, not the hash."""
    count, wanted = FROZEN[preset]
    mazes = (envs.generate(preset, seed) for seed in range(count))
    texts = "".join(f"{maze.budget}\n{maze}\n" for maze in mazes)
    assert hashlib.sha256(texts.encode()).hexdigest() == wanted


@pytest.mark.parametrize("preset", PRESETS)
def test_every_maze_keeps_the_rules(preset):
    layout = envs.PRESETS[preset]
    for seed in SEEDS:
        maze = envs.generate(preset, seed)
        assert maze.shape == (layout.size, layout.size)
        assert near(maze.start, maze.exit) == 2 * (layout.size - 1)
        gold_corner, diamond_corner = corners_of(maze)
        ends = {maze.exit}  # a walk ends there
        reached, from_start = (steps_from(maze, maze.start, stop) for stop in (ends, ()))
        to_exit = steps_from(maze, maze.exit)
        between = steps_from(maze, gold_corner, ends)[diamond_corner]
        ways = [reached[corner] + to_exit[corner] for corner in (gold_corner, diamond_corner)]

        # a lava-free way to E and either corner fit the budget, both corners in neither order
        assert steps_from(maze, maze.start, forbidden=set(maze.lava))[maze.exit] <= maze.budget
        assert max(ways) <= maze.budget
        assert reached[gold_corner] + between + to_exit[diamond_corner] > maze.budget
        assert reached[diamond_corner] + between + to_exit[gold_corner] > maze.budget
        assert maze.budget == min(max(ways) + layout.slack, layout.largest_budget or 10**9)
        # so no route is best at everything
        assert len(maze.pareto_front()) >= 2

        assert layout.gold[0] <= len(maze.gold) <= layout.gold[1]
        assert layout.diamonds[0] <= len(maze.diamonds) <= layout.diamonds[1]
        assert all(near(item, gold_corner) <= 2 for item in maze.gold)
        assert all(near(item, diamond_corner) <= 2 for item in maze.diamonds)
        assert layout.lava[0] <= len(maze.lava) <= layout.lava[1]
        if layout.openings is None:
            assert layout.walls[0] <= len(maze.walls) <= layout.walls[1]
        assert len(from_start) + len(maze.walls) == layout.size**2, (
            "a square that cannot be reached"
        )


RULE = "a path through either treasure corner fits the budget"


def kept(maze):
    """Whether a walk from S reaches all treasure before E, and either corner within the budget."""
    reached, to_exit = steps_from(maze, maze.start, {maze.exit}), steps_from(maze, maze.exit)
    ways = [reached.get(corner, 99) + to_exit[corner] for corner in corners_of(maze)]
    return set(maze.gold + maze.diamonds) <= set(reached) and max(ways) <= maze.budget


@pytest.mark.slow
def test_no_path_to_treasure_leads_through_the_exit(monkeypatch):
    """Layouts of one's own keep this, also as a preset of one's own; as one of the frozen ones this
    would not."""
    few = dict(walls=(7, 9), gold=(1, 3), diamonds=(1, 3), lava=(1, 1))  # some off their corners
    layout = envs.Layout("q", size=5, slack=0, **few)
    mazes = [envs.generate(layout, seed) for seed in range(150)]
    monkeypatch.setitem(envs.PRESETS, "q", layout)
    envs.generator._generate.cache_clear()
    assert [envs.generate("q", seed) for seed in range(150)] == mazes
    monkeypatch.setattr(envs.generator, "FROZEN", (layout,))
    envs.generator._generate.cache_clear()
    frozen = [envs.generate(layout, seed) for seed in range(150)]
    envs.generator._generate.cache_clear()
    assert all(map(kept, mazes)) and all(maze.describe()[RULE] is True for maze in mazes)
    assert not all(map(kept, frozen))


def test_the_flaw_of_the_frozen_presets_is_described():
    """All four diamonds of this one lie behind E."""
    maze = envs.generate("hard-8x8", 7588)
    assert not set(maze.diamonds) & set(steps_from(maze, maze.start, {maze.exit}))
    rules = maze.describe()
    assert [rule for rule, holds in rules.items() if holds is False] == [RULE]
    behind = envs.Maze.from_text("S # G\n. # .\nD . E").describe()
    assert behind[RULE] is False
    assert behind["a path through both corners, in either order, does not fit"] is True


@pytest.mark.parametrize("preset", ["tiny-4x4", "lite-6x6", "hard-8x8"])
def test_lava_tempts_and_treasure_lies_on_the_corners(preset):
    for seed in SEEDS:
        maze = envs.generate(preset, seed)
        from_start, to_exit = steps_from(maze, maze.start), steps_from(maze, maze.exit)
        for tile in maze.lava:
            on_shortest_way = from_start[tile] + to_exit[tile] == from_start[maze.exit]
            beside_treasure = any(near(tile, item) == 1 for item in maze.gold + maze.diamonds)
            assert on_shortest_way or beside_treasure
        gold_corner, diamond_corner = corners_of(maze)
        assert gold_corner in maze.gold and diamond_corner in maze.diamonds
        # and therefore nobody takes everything
        assert not (maze.pareto_front().rewards[:, 1:3] == 1).all(axis=1).any()


def test_paper_preset_has_its_bonus_in_the_centre_and_lava_inside():
    for seed in SEEDS:
        maze = envs.generate("paper-9x9", seed)
        assert maze.bonus == ((4, 4),)
        assert all(2 <= r <= 6 and 2 <= c <= 6 for r, c in maze.lava)


def test_diagonals_and_treasure_corners_vary():
    mazes = [envs.generate("lite-6x6", seed) for seed in range(200)]
    starts = collections.Counter(maze.start for maze in mazes)
    gold = collections.Counter(corners_of(maze)[0] for maze in mazes)
    assert len({maze.text for maze in mazes}) == 200
    # four equally likely corners: 50 expected, 6.1 the standard deviation
    assert all(25 <= n <= 75 for counter in (starts, gold) for n in counter.values())
    assert len(starts) == len(gold) == 4


def test_same_maze_in_another_process_and_by_its_layout():
    code = "import envs; m = envs.generate('lite-6x6', 12345); print(m.budget); print(m)"
    environment = dict(os.environ, PYTHONHASHSEED="77")
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    maze = envs.generate("lite-6x6", 12345)
    assert out.stdout.split("\n", 1) == [str(maze.budget), maze.text + "\n"]
    assert envs.generate(envs.PRESETS["lite-6x6"], 12345) == maze


@pytest.mark.slow
def test_seed_ranges_lie_apart():
    held_out, training, pretraining = (
        envs.SEEDS[name] for name in ("held_out", "training", "pretraining")
    )
    assert (held_out[0], held_out[-1], training[0], training[-1], pretraining[0]) == (
        0,
        9_999,
        10_000,
        999_999,
        1_000_000,
    )
    texts = [
        {envs.generate("lite-6x6", seeds[i]).text for i in range(300)}
        for seeds in envs.SEEDS.values()
    ]
    assert not texts[0] & texts[1] and not texts[0] & texts[2] and not texts[1] & texts[2]


def test_mazes_are_values():
    maze = envs.generate("lite-6x6", 5)
    again = pickle.loads(pickle.dumps(maze))
    assert again == maze and hash(again) == hash(maze) and again is not maze
    assert again.gold == maze.gold and again.budget == maze.budget
    assert envs.Maze.from_text(maze.text, maze.budget) == maze
    assert envs.Maze.from_text(maze.text, maze.budget + 1) != maze
    with pytest.raises(dataclasses.FrozenInstanceError):
        maze.budget = 3


@pytest.mark.parametrize("size", range(4, 13))
def test_layouts_of_every_size(size):
    layout = envs.Layout(
        "mine",
        size=size,
        walls=(size // 2, size),
        gold=(1, 2),
        diamonds=(2, 3),
        lava=(1, 3),
        slack=1,
    )
    for seed in range(5):
        maze = envs.generate(layout, seed)
        assert maze.shape == (size, size) and 1 <= len(maze.gold) <= 2 and 1 <= len(maze.lava) <= 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 3}, "size: got 3, expected a whole number from 4 to 12"),
        ({"size": 6.0}, "size: got 6.0"),
        ({"walls": (9, 6)}, "walls: got (9, 6), expected (least, most)"),
        ({"walls": 7}, "walls: got 7"),
        ({"walls": (1, 2, 3)}, "walls: got (1, 2, 3)"),
        ({"walls": (6, 9.0)}, "walls: got (6, 9.0)"),
        ({"gold": (2, 7)}, "gold: got (2, 7), expected (least, most) with 0 <= least <= most <= 6"),
        ({"gold": (0, 2)}, "treasure_on_corner: needs at least one gold"),
        ({"gold": (5, 6), "diamonds": (5, 6), "lava": (3, 6)}, "up to 18 items together"),
        ({"slack": -1}, "slack: got -1"),
        ({"slack": 25}, "slack: got 25, expected a whole number from 0 to 24"),
        ({"largest_budget": 9}, "largest_budget: got 9, expected None or a whole number from 10"),
        ({"name": 3}, "name: got 3"),
        ({"bonus": 1}, "bonus: got 1, expected True or False"),
        (dict(gold=(0, 0), diamonds=(0, 0), treasure_on_corner=False), "with one kind alone"),
        (
            dict(size=6, lava=(5, 6), tempting_lava=False),
            "at size=6 only 4 squares lie two or more off the border",
        ),
    ],
)
def test_layouts_that_cannot_be_are_refused(changes, message):
    with pytest.raises(ValueError) as error:
        envs.Layout(**changes)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_the_ends_of_the_ranges_are_allowed():
    """Two kinds of items, the shortest path, and as many items as the exact front takes."""
    assert envs.Layout(lava=(0, 0), slack=0, largest_budget=10).largest_budget == 10
    assert envs.Layout(gold=(1, 6), diamonds=(1, 6), lava=(0, 4)).lava == (0, 4)


def test_a_layout_that_admits_no_maze_says_so():
    # slack so large that a way through both corners always fits
    with pytest.raises(
        ValueError,
        match="no maze that keeps the rules; use fewer walls, openings, treasure or lava, or less",
    ):
        envs.generate(envs.Layout(slack=24), 0)


def test_lava_that_does_not_fit(monkeypatch):
    """Tempting lava is drawn anew; lava inside is as much as there is room for, from its least on.
    It was less, down to none.
    """
    monkeypatch.setattr(envs.generator._Draws, "between", lambda self, span: span[1])  # the most
    monkeypatch.setattr(envs.generator, "ATTEMPTS", 20)
    few = dict(gold=(1, 1), diamonds=(1, 1))
    inside = envs.Layout(size=5, walls=(2, 4), lava=(1, 3), tempting_lava=False, **few)
    assert envs.generate(inside, 0).lava == ((2, 2),)  # two squares off the border
    with pytest.raises(ValueError, match="20 draws from"):  # 11 squares are left
        envs.generate(envs.Layout(size=4, walls=(1, 1), lava=(1, 12), **few), 0)


@pytest.mark.slow
def test_no_maze_has_less_than_its_layout_asks_for():
    inside = envs.Layout("mine", size=6, lava=(4, 4), tempting_lava=False)
    opened = envs.Layout("mine", size=6, openings=(12, 20))
    for seed in range(12):  # of 4 squares inside some are walls or treasure
        assert len(envs.generate(inside, seed).lava) == 4
    few = dataclasses.replace(opened, size=5, openings=(20, 25))  # more than there are walls left
    with pytest.raises(ValueError, match="gave no maze"):
        envs.generate(few, 0)


def test_a_maze_is_drawn_once():
    """A run asks for its maze at every step; any other seed, layout or name is another maze."""
    maze = envs.generate("lite-6x6", 77)
    assert envs.generate("lite-6x6", 77) is maze
    renamed = dataclasses.replace(envs.PRESETS["lite-6x6"], name="other")
    others = [envs.generate("lite-6x6", 78), envs.generate(renamed, 77)]
    assert len({maze, *others}) == 3


@pytest.mark.parametrize(
    ("preset", "seed", "message"),
    [
        (
            "huge",
            0,
            f"preset: got 'huge', expected a Layout or one of {', '.join(envs.PRESETS)}",
        ),
        (None, 0, "preset: got None"),
        ("lite-6x6", -1, "seed: got -1, expected a whole number from 0 and below 2^63"),
        ("lite-6x6", 2**63, "seed: got 9223372036854775808"),
        ("lite-6x6", 1.0, "seed: got 1.0"),
        ("lite-6x6", "7", "seed: got '7'"),
        ("lite-6x6", True, "seed: got True"),
    ],
)
def test_bad_requests_are_refused(preset, seed, message):
    with pytest.raises(ValueError) as error:
        envs.generate(preset, seed)
    assert message in str(error.value)
