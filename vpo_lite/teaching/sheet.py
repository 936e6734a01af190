"""The cheat sheet: VPO on one printed page. Its numbers are computed when it is written.

The page needs no network, runs no script, and prints in black and white on A4 and on Letter. The
texts stand in `sheet.html`, and the example here: three answers, two objectives.
"""

from pathlib import Path

import numpy as np

from ..estimators import advantages
from ..exact import exact_set_reward, exact_shares
from ..markup import Html, filled, html, joined, packaged, page_path, write_page
from ..metrics import diversity, price_of_conflict

PAGE, STYLE = "teaching/sheet.html", "teaching/sheet.css"
ANSWERS = {"A": (1.0, 0.0), "B": (0.0, 1.0), "C": (0.6, 0.6)}  # name -> its two rewards
GROUP = ("ABC", "ABB", "ACC", "CCC")  # four rollouts of three answers
DASHES = {"A": "none", "B": "9 4", "C": "2 3"}
LEFT, RIGHT, TOP, BOTTOM = 34, 306, 14, 114  # of the picture's axes, in its own units


def write_sheet(path) -> Path:
    """Write the cheat sheet as one HTML file. Returns its path.

    Raises ValueError for a path that is no page, and for a file that cannot be written.
    """
    return write_page(page_path(path, "the sheet"), sheet())


def sheet() -> Html:
    """The page."""
    return filled(
        PAGE, style=packaged(STYLE), picture=_picture(), sets=_sets(), group=_group(), **numbers()
    )


def numbers() -> dict[str, str]:
    """The numbers in the page's sentences, by their names there.

    >>> numbers()["specialists"], numbers()["all_three"], numbers()["ceiling"]
    ('0.75', '0.76', '0.79')
    """
    front = rewards("ABC")
    shares = dict(zip(ANSWERS, exact_shares(front), strict=True))
    failing = np.array([ANSWERS["C"]] * 4 + [(0.0, 0.0)])  # four good answers, and one that fails
    worth = {
        "specialists": _worth("AB"),
        "one": _worth("C"),
        "all_three": _worth("ABC"),
        "ceiling": price_of_conflict(front)[1],
        "failing": diversity(failing),
        **{f"largest_{name}": exact_set_reward(np.eye(3), alpha) for name, alpha in ALPHAS.items()},
    }
    return {name: f"{float(value):.2f}" for name, value in worth.items()} | {
        f"share_{name}": f"{share:.0%}".replace("%", " %") for name, share in shares.items()
    }


ALPHAS = {"small": 0.1, "one": 1.0, "large": 10.0}


def rewards(letters: str) -> np.ndarray:
    """The rewards of these answers, (m, d).

    >>> rewards("AC").tolist()
    [[1.0, 0.0], [0.6, 0.6]]
    """
    return np.array([ANSWERS[letter] for letter in letters])


def _worth(letters) -> float:
    return float(exact_set_reward(rewards(letters)))


def _sets() -> Html:
    """A row for each set: its worth with the max inside the mean, and with the max outside."""
    return joined(
        html(
            "<tr><th scope='row'>{}</th><td>{}</td><td>{}</td></tr>\n",
            ", ".join(letters),
            f"{_worth(letters):.2f}",
            f"{rewards(letters).mean(axis=1).max():.2f}",
        )
        for letters in ("CCC", "ABB", "ABC")
    )


def _group() -> Html:
    """A row for each rollout of a group: its score U and its advantage."""
    credit = advantages("vpo", [[rewards(letters) for letters in GROUP]])[0]
    return joined(
        html(
            "<tr><th scope='row'>{}</th><td>{}</td><td>{}</td></tr>\n",
            " ".join(letters),
            f"{_worth(letters):.2f}",
            f"{advantage:+.2f}".replace("-", "−"),
        )
        for letters, advantage in zip(GROUP, credit, strict=True)
    )


def _picture() -> Html:
    """Who wins where: the score of each answer for every w, and the highest of them in bold."""
    shares = dict(zip(ANSWERS, exact_shares(rewards("ABC")), strict=True))
    lines = [
        html(
            "<line x1='{}' y1='{}' x2='{}' y2='{}' stroke-dasharray='{}' class='answer'/>",
            LEFT,
            _y(second),
            RIGHT,
            _y(first),
            DASHES[name],
        )
        for name, (first, second) in ANSWERS.items()
    ]
    points, parts, at = [(0.0, ANSWERS["B"])], [], 0.0
    for name in "BCA":  # from those who want the second objective to those who want the first
        begun, at = at, at + shares[name]
        points.append((at, ANSWERS[name]))
        middle = _x((begun + at) / 2)
        parts.append(html("<text x='{}' y='{}' class='name'>{}</text>", middle, BOTTOM - 27, name))
        said = f"{shares[name]:.0%}".replace("%", " %")
        parts.append(html("<text x='{}' y='{}'>{}</text>", middle, BOTTOM - 5, said))
        if at < 1 - 1e-9:
            border = "<line x1='{}' y1='{}' x2='{}' y2='{}' class='border'/>"
            parts.append(html(border, _x(at), TOP, _x(at), BOTTOM))
    top = " ".join(f"{_x(w)},{_y(w * one + (1 - w) * two)}" for w, (one, two) in points)
    return joined([*lines, html("<polyline points='{}' class='best'/>", top), *parts])


def _x(w: float) -> float:
    return round(LEFT + w * (RIGHT - LEFT), 1)


def _y(score: float) -> float:
    return round(BOTTOM - score * (BOTTOM - TOP), 1)
