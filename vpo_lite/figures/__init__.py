"""Numbers in, plotly figures out. Nothing here computes a metric, trains, or knows a widget.

Every method has its own colour (Okabe-Ito, safe for colour-blind eyes), marker and dash, the same
in every figure. So a curve can be told apart in grey print and from the back of a room. Sizes are
explicit because JupyterLab draws a figure 700 px wide otherwise. Greek letters are Unicode because
it does not draw LaTeX in titles.

A notebook shows each figure with its words folded below it. ``in_words(figure)`` returns them.

Rewards are (n, d) arrays as everywhere. `runs` is {label: data}. A label that is the name of a
method, or begins with it, takes the look of that method.

Importing this package loads no plotly. A name is loaded, with plotly, when it is first used: the
looks of the methods are also needed where plotly is not installed. More figures of searches are in
``figures.search`` and ``figures.evolution``, which are imported by name.
"""

from typing import TYPE_CHECKING

from ..lazy import lazy

_NAMES = {  # module -> what is public of it; a module named as a figure would hide that figure
    "rewards": "decomposition objective_space upper_envelope weight_clouds weight_simplex",
    "series": "curves lines over_counts set_reward_against_K set_reward_against_alpha",
    "search": "best_at_k",
    "parts": "live",
    "words": "in_words listed",
    "looks": "look",
}
_LAZY = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [*_LAZY]

if TYPE_CHECKING:  # the same for editors and type checkers, which cannot follow __getattr__
    from .looks import look as look
    from .parts import live as live
    from .rewards import decomposition as decomposition
    from .rewards import objective_space as objective_space
    from .rewards import upper_envelope as upper_envelope
    from .rewards import weight_clouds as weight_clouds
    from .rewards import weight_simplex as weight_simplex
    from .search import best_at_k as best_at_k
    from .series import curves as curves
    from .series import lines as lines
    from .series import over_counts as over_counts
    from .series import set_reward_against_alpha as set_reward_against_alpha
    from .series import set_reward_against_K as set_reward_against_K
    from .words import in_words as in_words
    from .words import listed as listed
else:
    __getattr__, __dir__ = lazy(__name__, _LAZY)
