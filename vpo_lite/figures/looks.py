"""One look for each method: its colour, marker and dash are the same in every figure.

Colours are after Okabe and Ito, safe for colour-blind eyes. The light ones are darkened until they
stand out 3 to 1 from a white page, as WCAG 2.2 asks (1.4.11). Marker and dash tell curves apart in
grey print and from the back of a room. tests/test_accessibility.py measures all of it.
"""

from typing import NamedTuple, TypeVar

from ..checks import shown
from ..estimators import METHODS

Labelled = TypeVar("Labelled")


class Look(NamedTuple):
    """How one method or label is drawn: the name as people write it, then plotly's names."""

    text: str
    colour: str
    marker: str
    dash: str


STYLES = {
    "vpo": Look("VPO", "#0072B2", "circle", "solid"),
    "grpo": Look("GRPO", "#D55E00", "square", "dash"),
    "multi_rlvr": Look("Multi-RLVR", "#B68E46", "triangle-up", "dot"),
    "set_max": Look("set_max", "#687377", "bowtie", "18px,4px,4px,4px,4px,4px"),
    "max_at_k": Look("Max@k", "#009E73", "diamond", "dashdot"),
    "gdpo": Look("GDPO", "#CD79A7", "cross", "longdash"),
    "maxrl": Look("MaxRL", "#0F9AF5", "x", "longdashdot"),
    "random_weighting": Look("random weighting", "#807037", "hexagon", "2px,6px"),
    "goal_conditioned": Look("goal-conditioned", "#000000", "triangle-down", "12px,3px,3px,3px"),
    "vpo_recombined": Look("recombined VPO", "#003F66", "star", "22px,4px"),
}
FRONT = "#555555"
# What methods are compared with, black or grey: the policy before training, and none at all.
BASELINES = {
    "before": Look("before", FRONT, "pentagon", "6px,3px,2px,3px"),
    "shipped policy": Look("shipped policy", FRONT, "pentagon", "6px,3px,2px,3px"),
    "random mutations": Look("random mutations", "#000000", "hourglass", "4px,4px"),
}
ON_DARK = {"#000000": "#FFFFFF", "#003F66": "#A5CDFF"}  # what would be lost on a dark page
WIDE = 824  # pixels: what JupyterLab shows beside its list of files, on a screen of 1280
EDGE = {"color": "black", "width": 1}  # around a marker
LEVEL = {"color": FRONT, "dash": "dot", "width": 2}  # a line of equal height
# Of methods of yours, from the end. The grey of set_max is too like FRONT.
SPARE = [style for name, style in STYLES.items() if name != "set_max"]
# Of answers 1 to 8 as on the board, and of labels without a method: none has a method's colour. The
# ninth looks like the first.
ANSWERS = [
    Look("", "#332288", "circle", "solid"),
    Look("", "#DD1C80", "square", "dash"),
    Look("", "#01665E", "triangle-up", "dot"),
    Look("", "#8C510A", "diamond", "dashdot"),
    Look("", "#661100", "triangle-down", "longdash"),
    Look("", "#7860D8", "hexagon", "12px,5px,3px,5px,3px,5px"),
    Look("", "#480048", "star", "26px,6px,10px,6px"),
    Look("", "#9C00FC", "cross", "3px,4px,3px,12px"),
]


def look(label: str, position: int = -1) -> Look:
    """The look of a label: of the method or baseline whose name it is or begins with, as settings
    or people write the name; else by the label's place in the figure. Methods of yours take the
    looks from the end of the list: the first one is drawn as the last method.
    ``STYLES[name] = Look(...)`` gives one a look of its own.

    >>> look("vpo").colour, look("grpo, seed 1").text, look("GRPO, seed 1") == look("grpo, seed 1")
    ('#0072B2', 'GRPO, seed 1', True)
    """
    own = [name for name in METHODS if name not in STYLES]
    known = STYLES | {n: SPARE[~i % len(SPARE)]._replace(text=n) for i, n in enumerate(own)}
    known = {style.text: style for style in known.values()} | known | BASELINES
    for name in sorted(known, key=len, reverse=True):  # the longest name that fits
        rest = str(label)[len(name) :]
        if str(label).startswith(name) and not rest[:1].isalnum() and rest[:1] != "_":
            return known[name]._replace(text=known[name].text + rest)
    return ANSWERS[position % len(ANSWERS)]._replace(text=str(label))


def by_label(data: Labelled, name: str, key: str = "label") -> Labelled:
    """The data, checked to have a label for each entry, as a dict and a DataFrame have.

    >>> by_label([[0.2, 0.5]], "curves")
    Traceback (most recent call last):
    ValueError: curves = [[0.2, 0.5]]: expected a dict by label, {label: data}
    """
    if not hasattr(data, "items"):
        raise ValueError(f"{name} = {shown(data)}: expected a dict by {key}, {{{key}: data}}")
    return data


def on_page(colour: str, dark: bool) -> str:
    """A method's colour on a page that is dark, or not.

    >>> on_page("#000000", dark=True), on_page("#0072B2", dark=True)
    ('#FFFFFF', '#0072B2')
    """
    return ON_DARK.get(colour, colour) if dark else colour


def stroke(colour: str, dash: str) -> dict:
    """A curve's line: thick enough for the back of a room."""
    return {"color": colour, "dash": dash, "width": 3}


def see_through(colour: str, opacity: float) -> str:
    """A colour for an area that shows what it covers.

    >>> see_through("#0072B2", 0.2)
    'rgba(0,114,178,0.2)'
    """
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def note(text: str) -> dict:
    """A text above a dotted line, and above the markers of a curve that ends on it. It is readable
    over curves, which stay visible below it.
    """
    how = {"font_size": 14, "showarrow": False, "bgcolor": "rgba(255,255,255,0.45)", "yshift": 6}
    return {"text": text} | how
