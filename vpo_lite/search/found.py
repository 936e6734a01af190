"""What an evolutionary search found, as a file: one candidate a line, in JSON."""

from collections.abc import Sequence
from pathlib import Path

from ..files import DamagedError, Schema, not_written, read_json_lines, write_atomically
from ..training.schemas import Count
from .one_problem import Trace


class Candidate(Schema):
    """An answer that a search scored.

    - problem: its place among the problems of the search, from 0
    - weights, rewards (d,): its score is w . r
    - call, tokens, candidates: spent when it was found, itself included
    - parents: the answers that it was grown or joined from; empty where the policy began anew
    """

    problem: Count
    answer: str
    rewards: list[float]
    weights: list[float]
    call: Count
    tokens: Count
    candidates: Count
    parents: list[str]


def save_found(traces: Sequence[Trace], path) -> Path:
    """Write all candidates of a search to a file, whole or not at all. Returns its path.

    Raises ValueError where it cannot be written.

    >>> import tempfile
    >>> from vpo_lite.search import evolve
    >>> from vpo_lite.tasks.programs import ProgramsTask
    >>> task = ProgramsTask()
    >>> traces = evolve(None, task, [task.instance(1)], m=2, calls=2, seed=0, tries=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = read_found(save_found(traces, f"{folder}/found.jsonl"))
    >>> len(found), found[-1].call, found[-1].candidates
    (4, 2, 4)
    """
    rows = [
        Candidate(
            problem=p,
            answer=one.answer,
            rewards=one.rewards.tolist(),
            weights=trace.weights.tolist(),
            call=one.spent.calls,
            tokens=one.spent.tokens,
            candidates=one.spent.candidates,
            parents=list(one.parents),
        )
        for p, trace in enumerate(traces)
        for one in trace.found
    ]
    try:
        write_atomically(path, "".join(row.model_dump_json() + "\n" for row in rows))
    except OSError as error:
        raise ValueError(not_written(path, error)) from error
    return Path(path)


def read_found(path) -> list[Candidate]:
    """The candidates of a file of :func:`save_found`. Raises DamagedError for any other, and where
    there is none.
    """
    if not Path(path).is_file():
        raise DamagedError(f"{path}: there is no such file")
    return read_json_lines(path, Candidate)
