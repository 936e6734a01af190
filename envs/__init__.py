"""Mazes whose gold, diamonds and lava pull against each other, with their exact Pareto fronts.

Gymnasium and NumPy only; usable with no language model at all.

>>> import envs
>>> maze = envs.Maze.from_text("S . G\\n. # .\\nD . E", budget=4)
>>> front = maze.pareto_front()
>>> front.routes, front.rewards.tolist()
(('RRDD', 'DDRR'), [[1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0]])
>>> envs.score_routes(maze, ["RRDD"]).tolist()
[[1.0, 1.0, 0.0, 1.0]]
"""

import gymnasium

from . import drawing
from .front import ParetoFront, pareto_front
from .layouts import PRESETS, PROBES, SEEDS, Layout, generate
from .maze import Maze, MazeEnv
from .scoring import OBJECTIVES, REWARD_MODES, canonical_route, score_routes

__all__ = [
    "OBJECTIVES",
    "PRESETS",
    "PROBES",
    "REWARD_MODES",
    "SEEDS",
    "Layout",
    "Maze",
    "MazeEnv",
    "ParetoFront",
    "canonical_route",
    "drawing",
    "generate",
    "pareto_front",
    "score_routes",
]

if "envs/Maze-v0" not in gymnasium.registry:
    # the checker wants a scalar reward; MO-Gymnasium switches it off for the same reason
    gymnasium.register("envs/Maze-v0", entry_point="envs.maze:MazeEnv", disable_env_checker=True)
