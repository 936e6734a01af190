"""What of a session is drawn, and by which weights it is judged. Training knows nothing of it."""

from dataclasses import dataclass, replace

from ..checks import LEAST_ALPHA, MOST_ALPHA, shown
from ..options import options_of, setting

ROUTES = ("answers", "best set", "front")


@dataclass(frozen=True)
class Showing:
    """What is drawn.

    - routes: what stands beside the answers: nothing else ("answers"), the set that the objective
      asks for ("best set"), or the whole true front ("front")
    - alpha: the alpha that coverage is judged at; None: the one that training uses

    >>> Showing().but(routes="front").routes
    'front'
    >>> Showing().but(routes="lava")
    Traceback (most recent call last):
    ...
    ValueError: unknown routes 'lava': there are answers, best set, front
    """

    routes: str = setting("answers", "what stands beside the answers", choices=ROUTES)
    alpha: float | None = setting(
        None, "alpha that coverage is judged at", least=LEAST_ALPHA, most=MOST_ALPHA
    )

    def __post_init__(self):
        for option in options_of(Showing):
            object.__setattr__(self, option.name, option.check(getattr(self, option.name)))

    def but(self, **changes) -> "Showing":
        """A copy with some of it changed. ValueError for an unknown name or value."""
        known = [option.name for option in options_of(Showing)]
        for name in changes:
            if name not in known:
                raise ValueError(f"show: there is no {shown(name)}; there are {', '.join(known)}")
        return replace(self, **changes)
