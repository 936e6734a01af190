"""A `reward_report` in plain words: the verdict first, then every figure with its meaning."""

import itertools

import numpy as np

from ..markup import Html, count, html, in_lines, joined
from ..odd_rewards import differ_in_scale, never_earned

MUCH, HARDLY = 0.85, 0.95  # coverage of the best answer: much below, hardly anything from there on
FAR_FROM_0 = 0.8  # coverage of an average answer: beyond, most of all rewards may be an offset
ALIKE = 0.97  # correlation of components that say the same
LABEL = 14  # columns of a label


def verdict(report) -> str:
    """The answer in a few sentences."""
    if not report.coverage:
        return "Nothing can be said yet: no sampled answer earned anything."
    if report.answers <= report.problems:
        return (
            "Nothing can be said yet: one answer to each problem does not show what several could "
            "gain. Sample more, say 30."
        )
    best, three = report.coverage[1], report.coverage[3]
    if best >= HARDLY:
        word = "Hardly anything"
    else:
        word = ("Much" if best < MUCH else "Something") + ", as far as the rewards can tell"
    if unequal := differ_in_scale(report.reached):
        word = f"Rescale first, since {unequal} As they are, {word[0].lower()}{word[1:]}"
    gain = f"at most {report.gain:.2g} of coverage" if report.gain > 5e-5 else "nothing"
    text = (
        f"{word}: the best single answer covers {number(best)} of what all sampled answers cover "
        f"together, the best three cover {number(three)}. So a set of these answers can gain "
        f"{gain} over the best single one."
    )
    return text if report.target is None else f"{text} {_of_the_target(report)}"


def text(report) -> str:
    """The whole report, in lines of 100 characters."""
    lines = [f"{in_lines(part)}\n" for part in _paragraphs(report)]
    lines += [in_lines(f"{label:<{LABEL}}{said}", indent=LABEL) for label, said in _rows(report)]
    return "\n".join(lines)


def page(report) -> Html:
    """The whole report as HTML, in lines as wide as the page. It brings its own style: it stands in
    notebooks, too.
    """
    beside = "display: grid; grid-template-columns: minmax(5em, max-content) 1fr; gap: .4em 1em"
    bold, usual = "font-weight: bold; width: auto; margin: 0", "width: auto; margin: 0"
    paragraphs = joined(html("<p>{}</p>", part) for part in _paragraphs(report))
    rows = joined(
        html('<dt style="{}">{}</dt><dd style="{}">{}</dd>', bold, label, usual, said)
        for label, said in _rows(report)
    )
    return html('{}<dl style="{}">{}</dl>', paragraphs, beside, rows)


def _paragraphs(report) -> list[str]:
    title = "What does this vector of rewards offer VPO?"
    parts = [title, verdict(report), _given(report)]
    if report.coverage:
        alpha = "" if report.alpha == 1 else f" (alpha = {report.alpha:g})"
        parts.append(
            f"Random weights w{alpha} say how much each component counts. A set of answers is "
            "worth the score w·r of its best answer, averaged over w. Coverage is this worth as a "
            "share of what all sampled answers are worth together. The verdict is 'Much' if the "
            f"best answer covers less than {MUCH}, and 'Hardly anything' from {HARDLY} on."
        )
    return parts


def _rows(report) -> list[tuple[str, str]]:
    """(label, text) of each figure and of each doubt."""
    return [*_figures(report), *(("beware", doubt) for doubt in _doubts(report))]


def few(coverage: dict) -> str:
    """What the best few answers cover.

    >>> few({1: 0.789, 2: 0.987, 3: 1.0})
    'the best answer 0.79, the best two 0.987, the best three 1.00'
    """
    names = {1: "the best answer", 2: "the best two", 3: "the best three"}
    return ", ".join(f"{names[m]} {number(coverage[m])}" for m in sorted(coverage))


def number(x) -> str:
    """A figure with two digits, near 1 with three; "none" where there is none.

    >>> number(0.857), number(0.9968), number(1.0), number(-0.004), number(None)
    ('0.86', '0.997', '1.00', '0.00', 'none')
    """
    if x is None:
        return "none"
    near_one = 0.98 <= abs(x) < 0.9995
    return f"{x:.{3 if near_one else 2}f}".replace("-0.00", "0.00")


def percent(x: float) -> str:
    """A share in percent.

    >>> percent(0.934)
    '93 %'
    """
    return f"{100 * x:.0f} %"


def _given(report) -> str:
    d = f"{report.dimensions:.1f} components (mean)"
    if report.objectives:
        d = f"{count(len(report.objectives), 'component')}: {', '.join(report.objectives)}"
    return (
        f"Looked at {count(report.answers, 'answer')} to {count(report.problems, 'problem')}, "
        f"{percent(report.valid)} of them {'valid' if report.valid_given else 'with some reward'}. "
        f"{d}."
    )


def _figures(report):
    """(label, text) of each figure that there is."""
    several = report.problems - report.empty > 1
    if report.coverage:
        low, high = number(report.lowest), number(report.highest)
        spread = f" From problem to problem the best answer covers {low} to {high}."
        yield (
            "coverage",
            f"an average answer {number(report.average)}, {few(report.coverage)}."
            + (spread if several else ""),
        )
        if report.needs_a_set is not None:
            yield (
                "needs a set",
                f"{percent(report.needs_a_set)} of the gap between an average answer and all "
                "sampled answers together. Only a set can close this part.",
            )
        yield (
            "under w*",
            "the answer with the highest fixed score w*·r covers "
            f"{number(report.under_w_star)}. GRPO heads for this answer.{_of_ties(report)}",
        )
    if report.rho_all is not None:
        yield (
            "correlation",
            f"of two components, on average: {number(report.rho_valid)} among valid answers"
            f"{_from_to(report)}, {number(report.rho_all)} among all. Near 1 they say the same, "
            f"below 0 they pull against each other.{_of_failures(report)}",
        )
    if report.effective is not None:
        yield (
            "dimensions",
            f"{report.effective:.1f} effective ones: valid answers differ in that many "
            "directions. 1 is one line: the same quality in every component, or one trade-off. "
            "The sign of the correlation says which.",
        )
    if report.front is not None:
        yield (
            "front",
            f"{report.front:.1f} sampled answers that no other one dominates"
            + (", on average" if several else "")
            + ". Do not take this for conflict: noise makes it larger.",
        )
    if report.target is not None:
        yield "target", _target_figures(report.target)


def _of_ties(report) -> str:
    """Where several answers are highest under w*; "" where none are."""
    if not report.tied:
        return ""
    where = f"On {count(report.tied, 'problem')} of {report.problems - report.empty}"
    where = where if report.problems - report.empty > 1 else "Here"
    return f" {where} different answers tie: it does not choose among those, and may keep several."


def _pairs(report) -> dict[tuple[str, str], float]:
    """The correlation of each pair of components among valid answers, where it is known."""
    table, names = report.correlations_valid, report.objectives
    if table is None:
        return {}
    pairs = itertools.combinations(range(len(names)), 2)
    return {(names[i], names[j]): table[i, j] for i, j in pairs if not np.isnan(table[i, j])}


def _from_to(report) -> str:
    """The lowest and the highest pair; "" where there are not several."""
    found = _pairs(report).values()
    return f" (from {number(min(found))} to {number(max(found))})" if len(found) > 1 else ""


def _alike(report) -> str | None:
    """A warning of components that say the same, where others say something else."""
    pairs = _pairs(report)
    alike = [f"{a} and {b}" for (a, b), rho in pairs.items() if rho > ALIKE]
    if not alike or len(alike) == len(pairs):
        return None
    return (
        f"among valid answers these components say the same: {', '.join(alike)}. Under random "
        "weights each counts once more; if that is not meant, keep one of them."
    )


def _of_failures(report) -> str:
    """Which of the two correlations to go by; "" where all answers are valid."""
    if report.valid >= 1 or report.rho_valid is None:
        return ""
    if not report.valid_given:
        return (
            " Trust neither: the first leaves out all answers without any reward, which makes it "
            "too low. The second counts failures, which makes it too high."
        )
    if report.rho_all > report.rho_valid:
        return (
            " Trust the first number: a failed answer is low in every component, so failures alone "
            "raise the second."
        )
    return " Trust the first number: failures count in the second."


def _target_figures(target) -> str:
    parts = [
        f"best of three answers: {target.spread[3]:.3g} if they cover the weights, "
        f"{target.highest[3]:.3g} if they are highest in w*·r, {target.random[3]:.3g} if they are "
        f"taken at random. Best of all: {target.best:.3g}."
    ]
    if target.alone:
        alone = ", ".join(f"{name} {x:.3g}" for name, x in target.alone.items())
        parts.append(f"If they are highest in one component: {alone}.")
    if target.error is not None and _equal(target):
        parts.append(
            f"Covering the weights adds nothing to the best of the others ({target.rival})."
        )
    elif target.error is not None:
        parts.append(
            f"Covering the weights adds {target.gain:.2g} to the best of the others "
            f"({target.rival}), with a standard error of {target.error:.2g}."
        )
    known = [f"w*·r {number(target.rho)}"]
    known += [f"{name} {number(rho)}" for name, rho in target.components.items()]
    parts.append(f"Correlation of the target with {', '.join(known)}.")
    return " ".join(parts)


def _of_the_target(report) -> str:
    target = report.target
    compared = (
        f"the best of the three answers that cover most is {target.spread[3]:.3g}, of the three "
        f"highest in {target.rival} it is {target.reached:.3g}"
    )
    if target.follows is None:
        return f"On the target, {compared}. One problem cannot tell this from chance."
    if target.follows:
        return f"The target gains, too: {compared}."
    word = "No" if report.coverage[1] >= HARDLY else "But no"
    tell = f"as far as these {report.problems - report.empty} problems tell"
    if _equal(target):
        return (
            f"{word} target is gained, {tell}: in each of them the best of the three answers "
            f"that cover most is as good as the best of the three highest in {target.rival}, "
            f"{target.reached:.3g} on average."
        )
    return (
        f"{word} target is gained, {tell}: {compared}. The difference has a standard error "
        f"of {target.error:.2g}."
    )


def _equal(target) -> bool:
    """Whether both choices reach the same target in each problem; no rounding is a difference."""
    return max(abs(target.gain), target.error) < 1e-9


def _same_for_all(report) -> str | None:
    """A warning where a component is the same for all valid answers of each problem."""
    if report.correlations_valid is None or report.effective is None:
        return None
    flat = np.isnan(np.diag(report.correlations_valid))
    names = zip(report.objectives, flat, strict=True)
    same = ", ".join(name for name, x in names if x and report.reached[name] > 0)
    if not same:
        return None
    return (
        f"all valid answers to a problem earn the same in {same}: this does not say which answer "
        "is better, and coverage counts it as reached"
    )


def _doubts(report):
    """Reasons not to trust the figures, as texts."""
    if report.target is None:
        yield (
            "no target was given. Useless components look like a conflict, too. Only a number "
            "from outside the rewards, such as a human score, tells the two apart."
        )
    if report.empty:
        yield (
            f"{count(report.empty, 'problem')} left out, because no answer earned anything there. "
            "No method learns from them."
        )
    if never := never_earned(report.reached):
        yield f"{never}."
    if same := _same_for_all(report):
        yield f"{same}."
    if alike := _alike(report):
        yield alike
    if not report.coverage and (unequal := differ_in_scale(report.reached)):  # else in the verdict
        yield unequal
    if report.coverage and report.valid < 0.5:
        few, first = "are valid", "reduce failures"
        if not report.valid_given:
            few, first = "earned anything", "make answers earn something"
        yield (
            f"only {percent(report.valid)} of the answers {few}. Training will first of all "
            f"{first}, with any method."
        )
    if not report.valid_given and report.valid < 1 and report.valid_cure:
        yield (
            "answers without any reward count as invalid, all others as valid. If this is wrong, "
            f"{report.valid_cure}."
        )
    if report.coverage and report.average > FAR_FROM_0 and (report.needs_a_set or 0) > 0.25:
        yield (
            f"an average answer covers {number(report.average)} already, so a high coverage says "
            "little. If a worthless answer earns more than 0, give `worst`, or go by 'needs a set'."
        )
    if report.coverage:
        yield (
            "an answer that was not sampled cannot show here, though training may find it: these "
            "figures bound what sets of these answers gain, not what VPO does. Sample more."
        )
