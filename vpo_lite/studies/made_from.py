"""What the runs of a study are made from, by content: data files, code of one's own, base models.

A file may be edited under the same name while a study is under way. Runs from before and after are
not runs of one study, so they are neither averaged nor compared.
"""

from collections.abc import Iterable

from ..files import DamagedError
from ..training.digests import TOKENIZER, digests_now
from .declaration import Job

NOW = "it has now"  # in place of a file: a run that is about to begin
Contents = dict[str, str]


def made_from(job: Job) -> Contents:
    """The digests of what a run reads now, by setting and name, {"data rows.jsonl": ..}: data,
    code, and the tokenizer of a model in a folder, not the model's parameters. Raises DamagedError
    for a data file that cannot be read.
    """
    found = {}
    for config in (job.config, job.judged):
        named = config.files | config.code | {TOKENIZER: config.base_model}
        found |= {f"{name} {named[name]}": value for name, value in digests_now(config).items()}
    return found


def without_method(contents: Contents) -> Contents:
    """What a search with a trained policy reads.

    >>> without_method({"method mine:vote": "0", "data rows.jsonl": "1"})
    {'data rows.jsonl': '1'}
    """
    return {name: c for name, c in contents.items() if name.partition(" ")[0] != "method"}


def check_alike(made: Iterable[tuple[object, Contents]]) -> None:
    """Raise DamagedError where two runs were made from different contents of one name.

    made: of each run or search its file or NOW, and what it was made from
    """
    seen: dict[str, tuple[object, str]] = {}
    for file, found in made:
        for name, content in found.items():
            first, there = seen.setdefault(name, (file, content))
            if content != there:
                cure = "put it back, or name another folder with --out"
                raise DamagedError(
                    f"{first}: was made when {name} had another content than "
                    f"{file if file is NOW else f'for {file}'}; "
                    f"{cure if file is NOW else 'move one of these files away'}"
                )
