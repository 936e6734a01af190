"""Faces: which objectives of a problem are drawn where, and in which words.

A maze has a face of its own. That of any other problem follows from its front, or from the
non-dominated answers of the step where that is not known. Across and up stand the two objectives
that pull hardest against each other. The corners of the simplex are all objectives if d = 3, else
those in which the points differ, if there are just three.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

import envs

from ..markup import Html, html
from ..objective import nondominated
from .view import View
from .words import is_maze

SAME, NOTHING = 1e-9, html("")


@dataclass(frozen=True)
class Face:
    """How problems with these d objectives are drawn.

    - names: of the objectives, in words
    - axes, axis_names: the objectives across and up in objective space, and their names there
    - corners: the three objectives at the corners of the simplex, with their names there; None
      where three do not tell all
    - note: what stands below the simplex
    - missed: what is said of the answers that do not count
    - valid_curve: the name of the curve of the share of answers that count
    - means: the objectives whose means are curves: {as the task names it: in words}
    - hollow: the objective whose points below 1 have open markers, and what that is called
    """

    names: tuple[str, ...]
    axes: tuple[int, int]
    axis_names: tuple[str, str]
    corners: tuple[int, int, int] | None
    corner_names: tuple[str, ...] = ()
    note: Html = NOTHING
    missed: str = "are not valid"
    valid_curve: str = "share of valid answers"
    means: Mapping[str, str] = field(default_factory=dict)
    hollow: tuple[int, str] | None = None

    @property
    def d(self) -> int:
        """The number of objectives."""
        return len(self.names)

    def open(self, vector) -> bool:
        """Whether this point has an open marker."""
        return self.hollow is not None and vector[self.hollow[0]] < 1

    def in_words(self, who: str, vector) -> str:
        """A reward vector with the names of its objectives."""
        pairs = zip(self.names, vector, strict=True)
        return f"{who}: " + ", ".join(f"{name} {value:.2f}" for name, value in pairs)


MAZE = Face(
    names=("completion", "gold", "diamonds", "avoid lava"),
    axes=(1, 2),
    axis_names=("gold", "diamonds"),
    corners=(1, 2, 3),
    corner_names=("gold", "diamonds", "avoid lava"),
    note=html("no corner for completion:<br>every route to E has it"),
    missed="miss E",
    valid_curve="share that reaches E",
    means={"gold": "gold", "diamond": "diamonds", "avoid_lava": "avoid lava"},
    hollow=(3, "over lava"),
)


def face_of(view: View) -> Face:
    """The face of the problem on show."""
    objectives = tuple(view.task.objectives(view.instance))
    if is_maze(view) and objectives == envs.OBJECTIVES:  # a task of one's own may have others
        return MAZE if view.instance.lava else replace(MAZE, hollow=None)
    names = tuple(name.replace("_", " ") for name in objectives)
    points = view.front
    if points is None:
        points = view.focus.moment.points if view.focus else np.eye(len(names))
        points = points[nondominated(points)]
    return _face(names, np.asarray(points, dtype=float))


def _face(names: tuple[str, ...], front: np.ndarray) -> Face:
    """
    >>> face = _face(("works", "fast", "cheap"), np.array([[1, 1, 0], [1, 0, 1]]))
    >>> face.axes, face.corners
    ((1, 2), (0, 1, 2))
    """
    axes = (0, min(1, len(names) - 1))
    if len(front) > 1 and len(names) > 1:
        apart = front - front.mean(axis=0)
        pull = apart.T @ apart  # (d, d): negative where one rises as the other falls
        pull[np.tril_indices(len(names))] = np.inf
        axes = tuple(map(int, np.unravel_index(pull.argmin(), pull.shape)))
    differ = np.flatnonzero(np.ptp(front, axis=0) > SAME)
    if len(names) == 3:
        corners, note = (0, 1, 2), NOTHING
    elif len(differ) == 3:
        corners = tuple(map(int, differ))
        note = html("no corner for what all<br>points of the front share")
    else:
        corners, note = None, NOTHING
    return Face(
        names=names,
        axes=axes,
        axis_names=(names[axes[0]], names[axes[1]]),
        corners=corners,
        corner_names=tuple(names[i] for i in corners or ()),
        note=note,
    )
