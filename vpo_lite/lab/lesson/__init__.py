"""A lesson: recorded runs as one page that a browser opens offline, with a live α.

The page needs no server, no network and no plotly. It draws with board.js, the panel's own. What it
shows at each α was computed when it was written.
"""

import base64
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ...checks import shortened
from ...markup import (
    Html,
    data_block,
    filled,
    html,
    joined,
    packaged,
    page_path,
    scripts,
    write_page,
)
from ..recordings import read
from . import texts
from .content import Lesson

PAGE = "lab/lesson/page.html"
STYLE = "lab/lesson/page.css"
SCRIPTS = {  # in this order: each uses only those before it
    "board": "lab/board.js",
    "charts": "lab/lesson/charts.js",
    "page": "lab/lesson/page.js",
}


def write_lesson(
    recordings: Sequence | str | os.PathLike,
    path,
    unseen: bool = False,
    progress: Callable = iter,
) -> Path:
    """Write these recordings as one HTML file. Returns its path.

    recordings: folders as `Lab.record` writes them, or names of recordings that the package
    carries; one of them, or several. All their runs, at most `content.MOST`, are shown side by
    side, so they must be of one problem.
    unseen: the page opens at step 1 and draws curves only up to the step on show, so that a class
    can vote before it sees the outcome. It hides the front and the best set until somebody presses
    Play or moves Step. Otherwise it opens at the last step, with whole curves.
    progress: wraps the loop over all α of the page, such as tqdm

    Raises ValueError for recordings that cannot be read or do not fit together, and for a file that
    cannot be written. Nothing is written then.
    """
    path = page_path(path, "a lesson")
    recordings = [recordings] if isinstance(recordings, str | os.PathLike) else recordings
    names = list(map(str, recordings))
    if len(set(names)) < len(names):
        raise ValueError(f"{shortened(', '.join(names), 200)}: name each recording once")
    lesson = Lesson.of({str(name): read(name) for name in recordings})
    return write_page(path, _page(lesson, unseen, progress))


def _page(lesson: Lesson, unseen: bool = False, progress: Callable = iter) -> Html:
    script = scripts(**SCRIPTS)
    digest = hashlib.sha256(script.encode()).digest()
    return filled(
        PAGE,
        digest=base64.b64encode(digest).decode(),
        style=packaged(STYLE),
        title=texts.title(lesson),
        problem=_problem(lesson.problem),
        tasks=_items(texts.tasks(lesson)),
        words=joined(html("<dt>{}</dt><dd>{}</dd>", *pair) for pair in texts.words(lesson)),
        runs=_items(map(texts.settings, lesson.shown)),
        data=data_block(lesson.data(progress) | {"unseen": unseen}),
        script=script,
    )


def _problem(text: str) -> Html:
    named = '<pre class="problem" role="group" tabindex="0" aria-label="the problem">{}</pre>'
    return html(named, text) if text else html("")


def _items(texts) -> Html:
    return joined(html("<li>{}</li>", text) for text in texts)
