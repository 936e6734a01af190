"""Claims of a notebook that hold for the settings that it came with."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def claim_for(as_it_came: bool) -> Iterator[None]:
    """A context for the assertions behind a claim.

    as_it_came: whether the settings that it is about are still the notebook's own. Where they are
    not, a failure is printed as a sentence, and the notebook runs on.

    >>> with claim_for(False):
    ...     assert 1 + 1 == 3
    The claim is about the settings that this notebook came with. With yours it does not hold.
    """
    try:
        yield
    except (AssertionError, IndexError, ValueError):  # another front has other points
        if as_it_came:
            raise
        print(
            "The claim is about the settings that this notebook came with. With yours it does not "
            "hold."
        )
