"""How many tokens of a prompt and its completion a model was made for, from its config alone."""


def positions_of(config) -> int | None:
    """Tokens of a prompt and its completion that the model was made for; None: it says none."""
    config = config.get_text_config()
    named = (getattr(config, n, None) for n in ("max_position_embeddings", "max_seq_len"))
    return next((most for most in named if most), None)


def most_positions_of(config) -> int | None:
    """Positions that can be computed; None: without an end, as usual rotary ones are.

    Models such as GPT-2 and OPT have a table of them. Rotary positions of the kinds longrope
    and dynamic turn by other angles in longer rows. There a cache of shorter rows, and the
    shorter rows of a batch, would be wrong.
    """
    config = config.get_text_config()
    rope = getattr(config, "rope_parameters", None)
    if rope is None:
        return positions_of(config)
    kinds = [rope] if "rope_type" in rope else rope.values()  # of some models by kind of layer
    limits = []
    for kind in (kind for kind in kinds if isinstance(kind, dict)):
        if kind.get("rope_type") == "longrope":
            older = getattr(config, "original_max_position_embeddings", None)
            limits.append(kind.get("original_max_position_embeddings") or older)
        elif kind.get("rope_type") == "dynamic":
            limits.append(positions_of(config))
    return min(filter(None, limits), default=None)


def beyond(prompt: int, new: int, most: int, model: str, *, refused: bool = False) -> str:
    """What to say of requests that are longer than a model was made for. refused: by training.

    >>> beyond(2000, 241, 2048, "someone/tiny")[:63]
    'requests of up to 2,000 tokens and 241 new ones need more than '
    """
    there = "training refuses them" if refused else "there its answers may be worse"
    return (
        f"requests of up to {prompt:,} tokens and {new:,} new ones need more than the {most:,} "
        f"positions that {model} was made for; {there}: shorten the requests, lower "
        "max_new_tokens, or choose another model"
    )
