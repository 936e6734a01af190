"""What resumable studies share: finished runs as lines of a file, with rounded numbers."""

import json


def rows(path) -> list[dict]:
    """The finished runs that the file holds."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def done(path) -> list:
    """The keys of the runs that the file holds."""
    return [row["run"] for row in rows(path)]


def add(path, run: list, figures: dict) -> dict:
    """Append the figures of a run to the file, rounded; returns them with the key of the run."""
    found = {"run": run} | _rounded(figures)
    with path.open("a") as file:
        file.write(json.dumps(found) + "\n")
    return found


def _rounded(value):
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    return round(value, 4) if isinstance(value, float) else value
