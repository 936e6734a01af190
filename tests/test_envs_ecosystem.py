"""MazeEnv among the libraries that people bring: MO-Gymnasium's wrappers and an ordinary RL agent.

Each part runs where its library is installed: `pip install mo-gymnasium stable-baselines3`.
"""

import gymnasium
import numpy as np
import pytest

import envs

ACTION = {"U": 0, "D": 1, "L": 2, "R": 3}


def follow(env, route):
    env.reset()
    for move in route:
        outcome = env.step(ACTION[move])
    return outcome


def test_mo_gymnasium_makes_it_and_wraps_it():
    mo_gymnasium = pytest.importorskip("mo_gymnasium")
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    env = mo_gymnasium.make("envs/Maze-v0", preset="lite-6x6", seed=1000)
    front = env.unwrapped.maze.pareto_front()
    linear = mo_gymnasium.wrappers.LinearReward(env, weight=weights)
    for route, vector in zip(front.routes, front.rewards, strict=True):
        _, reward, terminated, _, info = follow(linear, route)
        assert terminated and reward == pytest.approx(weights @ vector)
        np.testing.assert_array_equal(info["vector_reward"], vector)
    normalised = mo_gymnasium.wrappers.MONormalizeReward(mo_gymnasium.make("envs/Maze-v0"), idx=0)
    _, reward, *_ = follow(normalised, "U")
    assert reward.shape == (4,)


def test_mo_gymnasium_records_episodes():
    mo_gymnasium = pytest.importorskip("mo_gymnasium")
    env = mo_gymnasium.wrappers.MORecordEpisodeStatistics(
        mo_gymnasium.make("envs/Maze-v0", seed=1000), gamma=1.0
    )
    front = env.unwrapped.maze.pareto_front()
    *_, info = follow(env, front.routes[0])
    np.testing.assert_allclose(info["episode"]["r"], front.rewards[0])
    assert info["episode"]["l"] == len(front.routes[0])


def test_mo_gymnasium_vector_environment():
    mo_gymnasium = pytest.importorskip("mo_gymnasium")
    seeds = range(1000, 1004)
    makers = [
        lambda seed=seed: mo_gymnasium.make(
            "envs/Maze-v0", preset="tiny-4x4", seed=seed, observation="flat"
        )
        for seed in seeds
    ]
    vector = mo_gymnasium.wrappers.vector.MOSyncVectorEnv(makers)
    vector.reset()
    routes = [envs.generate("tiny-4x4", seed).pareto_front().routes[0] for seed in seeds]
    expected = [envs.generate("tiny-4x4", seed).pareto_front().rewards[0] for seed in seeds]
    total = np.zeros((4, 4))
    over = np.zeros(4, dtype=bool)
    for step in range(max(map(len, routes))):
        _, rewards, terminated, _, _ = vector.step(
            [ACTION[route[step % len(route)]] for route in routes]
        )
        assert rewards.shape == (4, 4)
        total += rewards * ~over[:, None]
        over |= terminated
    np.testing.assert_allclose(total, expected, atol=1e-6)
    vector.close()


@pytest.mark.slow
@pytest.mark.parametrize(("observation", "warn"), [("flat", True), ("dict", False)])
def test_stable_baselines_accepts_it(observation, warn):
    """Without a warning where it is flat; of a grid that is no image it would warn."""
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    checker.check_env(
        gymnasium.make("envs/Maze-v0", scalarize=[0.25] * 4, observation=observation), warn=warn
    )


def play_greedily(agent, env):
    observation, _ = env.reset()
    done, total = False, 0.0
    while not done:
        action, _ = agent.predict(observation, deterministic=True)
        observation, reward, terminated, truncated, _ = env.step(int(action))
        total += reward
        done = terminated or truncated
    return total, terminated


@pytest.mark.long
def test_an_ordinary_agent_learns_to_reach_the_exit():
    """PPO with equal weights, 10,000 steps: it finds E, and gold, diamonds or safety beside it."""
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    roomy = envs.Maze.from_text(envs.generate("tiny-4x4", 3).text, budget=14)
    env = gymnasium.make("envs/Maze-v0", maze=roomy, scalarize=[0.25] * 4, observation="flat")
    agent = stable_baselines3.PPO(
        "MlpPolicy",
        env,
        seed=0,
        n_steps=512,
        batch_size=128,
        n_epochs=8,
        learning_rate=2e-3,
        ent_coef=0.03,
        device="cpu",
    )
    assert play_greedily(agent, env) == (0.0, False)
    agent.learn(10_000)
    total, reached = play_greedily(agent, env)
    assert reached and total >= 0.5
