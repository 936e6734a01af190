"""Rewards from which little can be learnt, in words: whoever scores answers may say so."""

from collections.abc import Mapping

UNEQUAL = 20  # times the reach of another component: random weights then hear the larger one only


def differ_in_scale(reached: Mapping[str, float]) -> str | None:
    """A warning where one component reaches much further than another; None where none does.

    reached: by component, the highest reward above a worthless answer.

    >>> differ_in_scale({"length": 400.0, "polite": 1.0})[:59]
    'the components differ in scale: length reaches 400 above a '
    >>> differ_in_scale({"length": 4.0, "polite": 1.0, "never": 0.0})
    """
    some = {name: x for name, x in reached.items() if x > 0}
    large, small = (f(some, key=some.get, default=None) for f in (max, min))
    if not some or some[large] <= UNEQUAL * some[small]:
        return None
    return (
        f"the components differ in scale: {large} reaches {some[large]:,.4g} above a worthless "
        f"answer, {small} {some[small]:,.4g}. Under nearly all weights the larger one alone "
        "decides. Bring all to one scale, such as 0 to 1."
    )


def never_earned(reached: Mapping[str, float]) -> str | None:
    """A warning where no answer earned anything in some component; None where there is none.

    reached: as for :func:`differ_in_scale`.

    >>> never_earned({"brief": 1.0, "correct": 0.0})
    'no answer earned more than a worthless one in correct: nothing can be reinforced in it yet'
    >>> never_earned({"brief": 1.0})
    """
    never = ", ".join(name for name, x in reached.items() if x <= 0)
    if not never:
        return None
    return (
        f"no answer earned more than a worthless one in {never}: nothing can be reinforced in it "
        "yet"
    )


def always_equal(spread: Mapping[str, float]) -> str | None:
    """A warning where all answers to a problem earned the same in some component, and not in all;
    None where there is no such component.

    spread: by component, the highest less the lowest reward, mean over problems

    >>> always_equal({"polite": 0.0, "brief": 0.5})
    'all answers to a problem earn the same in polite: this does not say which answer is better'
    >>> always_equal({"polite": 0.0, "brief": 0.0})
    """
    same = ", ".join(name for name, x in spread.items() if x <= 0)
    if not same or not any(x > 0 for x in spread.values()):
        return None
    return (
        f"all answers to a problem earn the same in {same}: this does not say which answer is "
        "better"
    )
