"""Two reward functions in TRL's form, for the rows that the task ``functions`` ships.

The rows ask for a number up to a limit. Small numbers have few divisors, so no number is best in
both rewards.
"""


def small(completions, limit, **columns):
    """1 - number / limit; None for what is no number from 1 to the limit."""
    numbers = _numbers(completions, limit)
    return [None if n is None else 1 - n / most for n, most in zip(numbers, limit, strict=True)]


def many_divisors(completions, limit, **columns):
    """The number's divisors, as a share of the most that a number up to the limit has; None as in
    `small`.
    """
    numbers = _numbers(completions, limit)
    return [
        None if n is None else _divisors(n) / max(map(_divisors, range(1, most + 1)))
        for n, most in zip(numbers, limit, strict=True)
    ]


def _numbers(completions, limits):
    return [
        int(text) if text.strip() in map(str, range(1, most + 1)) else None
        for text, most in zip(completions, limits, strict=True)
    ]


def _divisors(number):
    return sum(number % i == 0 for i in range(1, number + 1))
