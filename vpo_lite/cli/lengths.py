"""What ``vpo-lite data check --model`` says of the tokens of requests."""

from collections.abc import Callable, Iterator

from .flags import Wrong, progress


def counted(task, records: dict, model: str, m: int, bar: dict) -> dict[str, int | None]:
    """The tokens of the longest request, its record, the mean, and the most that may follow.

    - positions: how many tokens the model was made for; None where it does not say
    - beyond: how many records need more of them; refused: whether training refuses such a record
    """
    from ..policy import shipped
    from ..policy.base import load_config, load_tokenizer
    from ..policy.positions import most_positions_of, positions_of
    from ..policy.tokenizer import encode

    if shipped.folder(model) is not None:
        raise Wrong(
            f"--model {model}: reads the symbols of its own task, and these requests are "
            "words; name a model of Hugging Face"
        )
    tokenizer, config = load_tokenizer(model), load_config(model)
    shown = progress(records.items(), desc="counting", **bar)
    tokens = {line: len(encode(tokenizer, task.prompt(x, m))) for line, x in shown}
    if not tokens:
        return {}
    line, new = max(tokens, key=tokens.get), {i: task.max_tokens(x, m) for i, x in records.items()}
    made_for = config and positions_of(config)
    most = config and most_positions_of(config)
    limit = min((n for n in (made_for, most) if n), default=None)
    long = [i for i, n in tokens.items() if limit and n + new[i] > limit]
    return {
        "request_tokens": tokens[line],
        "longest_request": line,
        "mean_request_tokens": round(sum(tokens.values()) / len(tokens)),
        "new_tokens": max(new.values()),
        "positions": limit,
        "beyond": len(long),
        "refused": bool(most) and any(tokens[i] + new[i] > most for i in long),
    }


def told(counts: dict, noun: str, model: str, named: Callable[[int], str]) -> Iterator[str]:
    """The same in lines of text. named: where a record stands."""
    from ..policy.positions import beyond

    tokens, new, most = (counts[name] for name in ("request_tokens", "new_tokens", "positions"))
    yield (
        f"{tokens:,} tokens in the longest request ({named(counts['longest_request'])}), "
        f"{counts['mean_request_tokens']:,} on average; up to {new:,} follow, unless the run names "
        "max_new_tokens"
    )
    if counts["beyond"]:
        said = beyond(tokens, new, most, model, refused=counts["refused"])
        yield f"{counts['beyond']:,} of {counts['records']:,} {noun}s are too long: {said}"
