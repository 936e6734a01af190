"""The lab: train in the background, watch what was learned, move the knobs.

`Lab` is what notebooks use. `Session` is the same without a picture of the problem, for any task.
Importing them loads no widget library and no plotly.
"""

from .maze_lab import Lab
from .session import Session

__all__ = ["Lab", "Session"]
