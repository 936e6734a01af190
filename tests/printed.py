"""What was printed, read by the tests."""

import re

from vpo_lite.cli import main

BAR = re.compile(r"\r[^\r\n]*\|[^\r\n]*\[[^\r\n]*\] *|(?:\r|^) *(?=\r|$)", re.MULTILINE)


def without_bars(text: str) -> str:
    """The text without the bars, which a slow machine alone shows, and their removal.

    >>> without_bars("\\r 59%|███▉  | 5698/9610 [00:02<00:01, 2848.74problem/s]\\r       \\r")
    ''
    >>> without_bars("Warning: late\\n\\rcounting:  50%|██  | 1/2 [00:02<00:02]\\r     \\r")
    'Warning: late\\n'

    JupyterLab keeps the blanks that were written over a bar.

    >>> without_bars("Warning: late\\n                 ")
    'Warning: late\\n'
    """
    return BAR.sub("", text).strip("\r")


def refused(capsys, *arguments, status: int = 2) -> str:
    """The line on stderr of a command that must be refused, which says nothing else."""
    assert main([*map(str, arguments)]) == status
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("vpo-lite: ") and err.count("\n") == 1, (out, err)
    return err
