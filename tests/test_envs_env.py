"""MazeEnv: the rules as an environment, and its place among gymnasium and MO-Gymnasium."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from gymnasium.utils.env_checker import check_env, data_equivalence

import envs
from envs import Maze, MazeEnv

ACTION = {"U": 0, "D": 1, "L": 2, "R": 3}
OBSERVATIONS = ("dict", "grid", "flat")
ROUTES = 10_000  # a tenth of what `make bench` walks
EQUAL = (0.25, 0.25, 0.25, 0.25)


def walk(env, route):
    """Steps through the route until the episode ends: the sum of rewards, and how it ended."""
    env.reset()
    total, terminated, truncated = np.zeros(4), False, False
    for move in route:
        if terminated or truncated:
            break
        _, reward, terminated, truncated, _ = env.step(ACTION[move])
        total = total + reward
    return total, terminated, truncated


def test_the_package_stands_alone():
    """`envs` loads gymnasium and numpy, and nothing of the library that trains on it."""
    others = {"torch", "vpo_lite", "scipy", "plotly", "transformers"}
    code = f"import envs, sys; print({others} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n"


@pytest.mark.slow
def test_no_public_name_hides_a_module():
    """Else `import envs.x as x` gives a function, or importing the module replaces the function.
    Each module comes first once, in one process: what it loaded of envs is then forgotten.
    """
    names = [path.stem for path in Path(envs.__file__).parent.glob("[!_]*.py")]
    code = f"""
import importlib, sys, types
for name in {names}:
    module, envs = importlib.import_module("envs." + name), sys.modules["envs"]
    exec(f"import envs.{{name}} as bound")
    assert bound is module and type(module) is types.ModuleType
    public = set(envs.__all__) - {{"drawing"}}
    assert all(not isinstance(getattr(envs, one), types.ModuleType) for one in public)
    print(name, envs.generate("tiny-4x4", 3).budget)
    for loaded in [one for one in sys.modules if one.partition(".")[0] == "envs"]:
        del sys.modules[loaded]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"{name} 6" for name in names], done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("reward_mode", ["linear", "convex_bonus"])
def test_stepping_equals_score_routes(reward_mode):
    assert compare_with_stepping(ROUTES // 2, reward_mode) > 0.1


def compare_with_stepping(n, reward_mode):
    """n random routes, step by step, against one call of score_routes.

    Returns the fraction that reaches E.
    """
    rng = np.random.default_rng(0)
    environments = [
        MazeEnv(preset, seed, reward_mode=reward_mode, observation="flat")
        for preset in envs.PRESETS
        for seed in range(10)
    ]
    witnesses = [env.maze.pareto_front(reward_mode).routes for env in environments]
    letters = rng.integers(4, size=(n, 40))
    chosen, routes = [], []
    for i in range(n):
        which = i % len(environments)
        route = "".join("UDLR"[x] for x in letters[i, : rng.integers(41)])
        if i % 5 == 0:  # random walks rarely arrive: every fifth goes to E with a detour, and on
            home = witnesses[which][rng.integers(len(witnesses[which]))]
            cut = rng.integers(len(home) + 1)
            route = home[:cut] + ("", "UD", "LR", "U")[rng.integers(4)] + home[cut:] + route[:3]
        chosen.append(environments[which])
        routes.append(route)
    scores = envs.score_routes([env.maze for env in chosen], routes, reward_mode)
    for env, route, score in zip(chosen, routes, scores, strict=True):
        total, terminated, truncated = walk(env, route)
        assert total.tolist() == score.tolist(), (env.maze, route)
        assert terminated == (score[0] == 1) and not (terminated and truncated)
        assert env.route == envs.canonical_route(env.maze, route)
    return float(scores[:, 0].mean())


def test_episode_by_hand():
    env = gymnasium.make("envs/Maze-v0", maze=Maze.from_text("S # G\n. L E", budget=5))
    assert type(env.unwrapped) is MazeEnv
    observation, info = env.reset(seed=3)
    assert env.observation_space == Dict(
        grid=Box(0, 7, (2, 3), np.int8),
        position=MultiDiscrete([2, 3]),
        steps_left=Discrete(6),
        taken=MultiBinary(2),
    )
    assert (
        observation["grid"].tolist() == [[1, 7, 3], [0, 5, 2]]
        and observation["grid"].dtype == np.int8
    )
    assert observation["position"].tolist() == [0, 0] == observation["taken"].tolist()
    assert observation["steps_left"] == 5
    assert info["vector_reward"].tolist() == [0, 0, 0, 0] and info["is_success"] is False
    seen = []
    for action in (3, 1, 3, 3):  # a bump, then down and through the lava
        observation, reward, terminated, truncated, info = env.step(action)
        seen.append(
            (
                observation["position"].tolist(),
                int(observation["steps_left"]),
                reward.tolist(),
                terminated,
            )
        )
    assert seen == [
        ([0, 0], 4, [0, 0, 0, 0], False),
        ([1, 0], 3, [0, 0, 0, 0], False),
        ([1, 1], 2, [0, 0, 0, 0], False),
        ([1, 2], 1, [1, 0, 0, 0], True),
    ]
    assert observation["taken"].tolist() == [0, 1] and not truncated
    assert info["is_success"] and info["vector_reward"].tolist() == [1, 0, 0, 0]


def test_the_budget_truncates_and_pays_nothing():
    env = MazeEnv(maze="S . . E", scalarize=EQUAL)
    assert env.steps_left == env.maze.budget  # it can be drawn before it begins
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"step\(\) before reset\(\)"):
        env.step(0)
    env.reset()
    steps = 0
    truncated = False
    while not truncated:
        _, reward, terminated, truncated, info = env.step(0)
        steps += 1
        assert reward == 0 and not terminated and not info["is_success"]
    assert steps == env.maze.budget
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\) first"):
        env.step(0)


def test_exit_on_the_last_step_terminates():
    env = MazeEnv(maze=Maze.from_text("S . E", budget=2))
    assert walk(env, "RR")[1:] == (True, False)


@pytest.mark.parametrize("observation", OBSERVATIONS)
@pytest.mark.parametrize("maze", [None, *envs.PROBES.values(), Maze.from_text("S . . .\nB G D E")])
def test_gymnasium_checks(observation, maze):
    check_env(MazeEnv(maze=maze, scalarize=EQUAL, observation=observation), skip_render_check=True)
    vector = MazeEnv(maze=maze, observation=observation)
    assert vector.reward_dim == 4 and vector.reward_space == Box(0, 1, (4,), np.float64)
    if observation != "dict":
        space = vector.observation_space
        assert space == Box(0, 1, space.shape, np.float32)
    observed, _ = vector.reset()
    done = False
    rng = np.random.default_rng(0)
    while not done:
        assert vector.observation_space.contains(observed)
        observed, reward, terminated, truncated, info = vector.step(int(rng.integers(4)))
        assert vector.reward_space.contains(reward)
        np.testing.assert_array_equal(reward, info["vector_reward"])
        done = terminated or truncated
    assert vector.observation_space.contains(observed)


def test_check_env_on_the_unwrapped_vector_environment():
    # gymnasium expects a number there
    with pytest.warns(UserWarning, match="reward returned by `step"):
        check_env(gymnasium.make("envs/Maze-v0").unwrapped, skip_render_check=True)


@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_observations_tell_the_state(observation):
    """Two different states (square, items taken, steps left) never look alike."""
    env = MazeEnv("tiny-4x4", 1, observation=observation)
    rng = np.random.default_rng(5)
    looks = {}
    for _ in range(200):
        seen, _ = env.reset()
        done = False
        while not done:
            state = (env.position, env.taken.tobytes(), env.steps_left)
            parts = seen.values() if isinstance(seen, dict) else [seen]
            look = b"".join(np.asarray(part).tobytes() for part in parts)
            assert looks.setdefault(look, state) == state
            seen, _, terminated, truncated, _ = env.step(rng.integers(4))
            done = terminated or truncated
    assert len(set(looks.values())) == len(looks) > 50


def test_grid_planes():
    env = MazeEnv(maze=Maze.from_text("S G #\nD B L\n. . E", budget=8), observation="grid")
    planes, _ = env.reset()
    assert [np.argwhere(plane).tolist() for plane in planes[:7]] == [
        [[0, 0]],
        [[0, 2]],
        [[2, 2]],
        [[0, 1]],
        [[1, 0]],
        [[1, 2]],
        [[1, 1]],
    ]
    planes, *_ = env.step(ACTION["R"])
    assert planes[0, 0, 1] == 1 and not planes[3].any() and (planes[7] == np.float32(7 / 8)).all()


def test_returned_arrays_are_the_callers():
    """Writing into an observation or a reward changes neither the environment nor earlier ones."""
    env = MazeEnv("lite-6x6", 1)
    first, _ = env.reset()
    kept = copy.deepcopy(first)
    second, reward, _, _, info = env.step(1)
    assert data_equivalence(first, kept)
    for part in second.values():
        if isinstance(part, np.ndarray):
            part[...] = 1
    reward[:] = 9
    assert info["vector_reward"].tolist() == [0, 0, 0, 0]
    third, *_ = env.step(1)
    assert data_equivalence(third["grid"], kept["grid"])


def test_seeds_of_reset_change_nothing_and_runs_repeat():
    first, second = gymnasium.make("envs/Maze-v0", seed=4), gymnasium.make("envs/Maze-v0", seed=4)
    rng = np.random.default_rng(1)
    assert data_equivalence(first.reset(seed=1), second.reset(seed=999), exact=True)
    for _ in range(50):
        action = int(rng.integers(4))
        one, two = first.step(action), second.step(action)
        assert data_equivalence(one, two, exact=True)
        if one[2] or one[3]:
            assert data_equivalence(first.reset(), second.reset(), exact=True)
    assert first.unwrapped.maze == envs.generate("lite-6x6", 4)


def test_pickle_keeps_the_place():
    env = MazeEnv("lite-6x6", 4)
    env.reset()
    env.step(ACTION["U"])
    again = pickle.loads(pickle.dumps(env))
    for action in (0, 1, 2, 3, 3, 3):
        assert data_equivalence(env.step(action), again.step(action), exact=True)


def test_scalarize_is_the_weighted_sum():
    weights = np.array([0.1, 0.7, 0.2, 0.0])
    env, vector = MazeEnv("lite-6x6", 6, scalarize=weights), MazeEnv("lite-6x6", 6)
    for route in vector.maze.pareto_front().routes:
        total, *_ = walk(vector, route)
        number, *_ = walk(env, route)
        assert number[0] == pytest.approx(weights @ total)
    env.reset()
    assert type(env.step(0)[1]) is float


def test_discounted_front():
    """A short route without gold, a longer one with: a strong discount keeps both on the front."""
    env = MazeEnv(maze=Maze.from_text("S . E\n. # .\n. G .", budget=6))
    assert [v.tolist() for v in env.pareto_front()] == [[1, 1, 0, 1]]
    gamma = 0.5
    # two steps pay (1, 0, 0, 1) after one discount, six steps pay (1, 1, 0, 1) after five
    expected = [[gamma, 0, 0, gamma], [gamma**5, gamma**5, 0, gamma**5]]
    assert [v.tolist() for v in env.pareto_front(gamma=gamma)] == expected
    for wrong in (0, 1.5, -1, float("nan")):
        message = f"gamma: got {wrong}, expected a discount above 0 and at most 1"
        with pytest.raises(ValueError, match=message):
            env.pareto_front(wrong)


def test_vector_environments_of_gymnasium():
    vector = gymnasium.make_vec(
        "envs/Maze-v0",
        num_envs=3,
        vectorization_mode="sync",
        scalarize=EQUAL,
        observation="flat",
        preset="tiny-4x4",
    )
    observation, _ = vector.reset(seed=0)
    assert observation.shape[0] == 3
    total = np.zeros(3)
    rng = np.random.default_rng(0)
    for _ in range(200):
        _, reward, terminated, truncated, _ = vector.step(rng.integers(0, 4, 3))
        assert reward.shape == terminated.shape == truncated.shape == (3,)
        total += reward
    assert (total > 0).any()
    vector.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"preset": "nope"}, "preset: got 'nope'"),
        ({"seed": -3}, "seed: got -3"),
        ({"maze": 3}, "maze: got int, expected a Maze, the text of one, or None"),
        ({"maze": "S S\nE ."}, "text: a maze needs exactly one S"),
        ({"maze": "S E", "seed": 3}, "seed: got 3 together with maze; give one of the two"),
        ({"maze": "S E", "preset": "x"}, "preset: got 'x' together with maze; give one of the two"),
        ({"reward_mode": "cubic"}, "reward_mode: got 'cubic'"),
        ({"observation": "pixels"}, "observation: got 'pixels', expected one of dict, grid, flat"),
        (
            {"render_mode": "human"},
            "render_mode: got 'human', expected None, 'ansi', 'rgb_array' or 'svg'",
        ),
        ({"scalarize": (1, 2)}, "scalarize: got (1, 2), expected 4 finite weights"),
        ({"scalarize": (1, 2, 3, float("nan"))}, "scalarize: got (1, 2, 3, nan)"),
        ({"scalarize": "equal"}, "scalarize: got 'equal'"),
        ({"budget": 9}, "budget: got 9 without the text of a maze"),
        ({"maze": Maze.from_text("S E"), "budget": 9}, "budget: got 9 without the text of a maze"),
        ({"maze": "S . E", "budget": 1}, "budget: got 1"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError) as error:
        MazeEnv(**arguments)
    assert message in str(error.value)


def test_a_maze_beside_a_seed_is_refused_by_gymnasium_make_too():
    with pytest.raises(ValueError, match=r"^seed: got 3 together with maze; give one of the two$"):
        gymnasium.make("envs/Maze-v0", maze="S E", seed=3)


def test_a_drawn_maze_is_made_again_from_the_json_of_its_spec():
    """Its text alone lost the budget."""
    maze = envs.generate("lite-6x6", 1000)
    spec = gymnasium.make("envs/Maze-v0", maze=maze.text, budget=maze.budget).spec
    again = gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(spec.to_json()))
    assert again.unwrapped.maze == maze


def test_mazes_of_one_size_share_the_space_of_planes_alone():
    """Items and budget differ from maze to maze."""
    spaces = {
        how: [MazeEnv("lite-6x6", s, observation=how).observation_space for s in range(1000, 1020)]
        for how in ("dict", "flat", "grid")
    }
    alike = {how: all(x == found[0] for x in found) for how, found in spaces.items()}
    assert alike == {"dict": False, "flat": False, "grid": True}
    makers = [
        lambda seed=seed: MazeEnv("lite-6x6", seed, observation="grid", scalarize=EQUAL)
        for seed in range(1000, 1004)
    ]
    vector = gymnasium.vector.SyncVectorEnv(makers)
    observation, _ = vector.reset()
    assert observation.shape == (4, 8, 6, 6) and vector.step([0] * 4)[1].shape == (4,)
    vector.close()


@pytest.mark.parametrize("action", [4, -1, "U", None, 1.5, np.array([1, 2])])
def test_wrong_actions_are_refused(action):
    env = MazeEnv()
    env.reset()
    with pytest.raises(ValueError, match=r"action: got .*, expected 0, 1, 2 or 3"):
        env.step(action)
    assert env.route == ""
