"""Mazes whose gold, diamonds and lava conflict, with their exact Pareto fronts.

The package needs gymnasium and NumPy, and no language model.

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
from .env import MazeEnv
from .front import ParetoFront, pareto_front
from .generator import PROBES, generate
from .layouts import PRESETS, SEEDS, Layout
from .maze import Maze
from .scoring import OBJECTIVES, REWARD_MODES, canonical_route, score_routes, walk

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
    "walk",
]

if "envs/Maze-v0" not in gymnasium.registry:
    # gymnasium's checker demands a scalar reward; MO-Gymnasium switches it off for the same reason
    gymnasium.register("envs/Maze-v0", entry_point="envs.env:MazeEnv", disable_env_checker=True)
