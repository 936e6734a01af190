"""From rewards to advantages: VPO and every baseline, each one a short function.

    R (P, G, m, d)  ->  score (P, G)  ->  advantage (P, G)

P prompts, G rollouts per prompt (a group), m answers per rollout, d objectives. Think of it in two
steps. First a method turns the (m, d) rewards of a rollout into one number, its score. Then it
compares that score with the other rollouts of the same prompt. The result is the advantage: by how
much this rollout is better than its group. Training multiplies the log-probability of every token
of the rollout by it. The methods differ here. Some also set m = 1, write weights into the prompt,
or recombine a group (see `Method`).

Sources (arXiv): VPO 2605.22817; GRPO 2402.03300; Multi-RLVR 2603.24844; max@k 2510.23393,
2505.15201 (PKPO), 2606.06080; GDPO 2601.05242, as in 2605.22817; MaxRL 2602.02710.

Longer than 350 lines because all methods stand side by side, with what they are made of.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .checks import (
    LARGEST,
    LARGEST_WEIGHT,
    check_alpha,
    check_choice,
    check_finite,
    check_number,
    check_rewards,
    check_truth,
    check_weights,
    check_whole,
    is_below,
    raised_by,
    shown,
    told_of,
)
from .exact import ExactReward, compared_set_rewards
from .objective import set_reward

FLOOR = 1e-9  # scores that spread less than this are equal: their advantages are exactly 0
ROUNDING = 1e-12  # equal, too: scores that spread less than this part of their largest rewards
NOISE = 4  # equal, too: scores that differ by fewer standard errors than this
OF_SCORES = ("max_at_k", "maxrl")  # methods whose advantages need scores alone, but no z-scores
WHITENED = ("gdpo", "max_at_k")  # methods whose advantages may be scaled over the batch
MOST_ADVANTAGE = 1e30  # times a ratio and the number of tokens it must fit into float32
Rewards = ArrayLike | Sequence[ArrayLike]  # one array, or a list of one for each prompt


class Estimate(NamedTuple):
    """One step's numbers: `score` (P, G) before and `advantage` (P, G) after comparing a group."""

    score: np.ndarray
    advantage: np.ndarray


@dataclass(frozen=True)
class Method:
    """One row of the table of methods."""

    name: str
    estimate: Callable  # (R, *, weights, alpha, w_star, k, eps) -> (score, advantage), or scores
    single_answer: bool = False  # defined for one answer per rollout, so it sets m = 1
    weights: str = "none"  # drawn per prompt: "none", "one" (P, 1, d) or "many" (P, K, d)
    weight_in_prompt: bool = False  # the policy reads its weights in the prompt
    recombines: bool = False  # a group's answers make one more rollout (training/recombine.py)
    z_score: bool = False  # it gives scores alone; their z-scores in the group are the advantages

    def __post_init__(self):
        check_choice(self.weights, "weights", ("none", "one", "many"))

    @property
    def ours(self) -> bool:
        """Whether it is one of this module."""
        return self.estimate.__module__ == __name__


ARGUMENTS = ("weights", "alpha", "w_star", "k", "eps")  # that a method may name
METHODS: dict[str, Method] = {}  # by name, in the order of the table


def method(*function: Callable, **properties: Any) -> Callable[[Callable], Callable]:
    """Register the decorated function as a method under its own name.

    `properties` are fields of `Method`. The function takes R (P, G, m, d) and names the keyword
    arguments it needs, out of weights (P, K, d), alpha, w_star (P, d), k and eps. It ends in `**_`,
    which takes the others.

    - With `z_score=True` it returns the scores (P, G) alone. The library compares a group by their
      z-scores, and so do TRL and veRL. Otherwise it returns the pair (score, advantage).
    - `weights` is None where the exact mean is asked for (K = infinity).
    - It must not compare prompts: with `groups=`, and where d differs, it is called for each alone
      (P = 1). Training calls it once before the first step, too, for a group without any answer.

    Raises ValueError for the name of a method of another module, since runs and figures go by the
    name; for an unknown property; for a function without ``**_``, with an argument that it will
    not be given, or with `weights` and no property that says which; and for ``@method`` without
    parentheses.
    """
    if function:
        raise ValueError(f"method({shown(function[0])}): write @method(), with parentheses")
    known = {field.name: field.default for field in fields(Method)[2:]}
    for name, value in properties.items():
        check_choice(name, "property of a method", known)
        if isinstance(known[name], bool):
            check_truth(value, name)

    def register(function):
        name = getattr(function, "__name__", type(function).__name__ + "(...)")
        if not name.isidentifier():
            raise ValueError(f"method {name!r} has no name to be asked for by: define it with def")
        if inspect.getfullargspec(function).varkw is None:
            raise ValueError(f"method {name!r} must take **_ as its last parameter")
        for asked in list(inspect.signature(function).parameters.values())[1:-1]:
            if asked.default is asked.empty:
                check_choice(asked.name, f"argument of method {name!r}", ARGUMENTS)
                if asked.name == "weights" and properties.get("weights", "none") == "none":
                    raise ValueError(
                        f"method {name!r} names weights and says not which: write "
                        'method(weights="many") for K of each prompt, or "one"'
                    )
        home = getattr(METHODS.get(name), "estimate", function).__module__
        if home not in (function.__module__, "__main__"):  # a notebook's cell became a file
            raise ValueError(f"method {name!r} of {home} is there already: give yours another name")
        METHODS[name] = Method(name, function, **properties)
        return function

    return register


def advantages(
    method: str,
    R: Rewards,
    *,
    weights: Rewards | Mapping | None = None,
    alpha: float = 1.0,
    w_star: Rewards | Mapping | None = None,
    k: int | None = None,
    eps: float = 1e-6,
    whiten: bool = False,
    groups: Iterable | None = None,
) -> np.ndarray:
    """The advantage of every rollout: by how much it is better than the others of its prompt.

    Returns float64 (P, G). A positive advantage makes the rollout more likely in training, a
    negative one makes it less likely. In a group with equal scores all advantages are exactly 0:
    there is nothing to learn from it. Scores are equal if their standard deviation is below 1e-9,
    or below 1e-12 of the largest rewards they are made of. So scale up rewards that are that small,
    and round rewards that come from float32 or float16: these round more coarsely. With
    weights=None scores are also equal if highest and lowest differ by less than 4 standard errors.
    `gdpo` compares the objectives, so there each objective counts, not the score.

    method   a name in METHODS. `vpo_recombined` gives the numbers of `vpo` here, and
             `goal_conditioned` those of `random_weighting`: they differ in what training compares
             and samples.
    R        rewards (P, G, m, d), at most 1e100 in size. Or a list of P arrays (G, m, d_p) when d
             differs between prompts; then `weights` and `w_star` are lists of P arrays, too.
    weights  for `vpo`: (P, K, d), or (K, d) for all prompts. Each prompt has its own K weight
             vectors, and its G rollouts share them. If every rollout had its own, chance would
             decide which one scores higher; (P, G, K, d) is accepted, to show that. Weights are at
             least 0, and not all 0. Rows that do not add up to 1 count by their size.
             None takes the mean over all w ~ Dir(alpha). It is exact for d = 2, and at alpha = 1 up
             to about d = 4. Beyond that some groups are averaged over 16,384 Sobol points, with an
             error of some 1e-4: `exact_set_reward` states the limit, and the error of each set. It
             costs more than drawn weights, a thousand times as much for m = 5 and d = 6.
             For `random_weighting` and `goal_conditioned`: (P, 1, d), one weight vector per prompt.
             Other methods ignore it.
    alpha    the Dirichlet concentration of that mean, 1e-6 to 1e6.
    w_star   the task's fixed weights, (d,) or (P, d), at most 1e40, not all 0. None means 1/d each.
    k        for `max_at_k`: the budget, 1 <= k <= G - 1. None means max(2, G // 2), at most G - 1.
    eps      added to the standard deviation, or mean, that divides.
    whiten   for `gdpo` and `max_at_k`: also divide all advantages by their standard deviation over
             the batch.
    groups   for rollouts in any order and groups of any size: N labels, one for each rollout, such
             as the ids of their prompts. R is then (N, m, d), or a list of N arrays (m, d_n), and
             the result is (N,). `weights` (K, d) and `w_star` (d,) hold for all groups. Otherwise
             they are dicts with an array for each label, or lists with one for each label in the
             order in which the labels first appear. A group of one rollout has advantage 0;
             `max_at_k` refuses it.

    Raises ValueError, in one line, for shapes and values that do not fit the method.

    In this group only the first rollout has answers for both objectives:

    >>> R = [[[[1, 0], [0, 1]], [[1, 0], [1, 0]], [[1, 0], [1, 0]], [[1, 0], [1, 0]]]]
    >>> advantages("vpo", R).round(2).tolist()
    [[1.73, -0.58, -0.58, -0.58]]
    >>> advantages("multi_rlvr", R).tolist()  # the sum of the rewards cannot tell them apart
    [[0.0, 0.0, 0.0, 0.0]]

    The same for two prompts whose rollouts come mixed:

    >>> rows = [[[1.0]], [[0.2]], [[0.0]], [[0.6]]]
    >>> advantages("vpo", rows, groups=["a", "b", "a", "b"]).round(2).tolist()
    [1.0, -1.0, -1.0, 1.0]
    """
    credit = dict(weights=weights, alpha=alpha, w_star=w_star, k=k, eps=eps, whiten=whiten)
    return estimate(method, R, **credit, groups=groups).advantage


def rollout_scores(
    method: str,
    R: Rewards,
    *,
    weights: Rewards | None = None,
    alpha: float = 1.0,
    w_star: Rewards | None = None,
) -> np.ndarray:
    """The score of every rollout, before it is compared with its group.

    Returns float64 (P, G). Arguments and errors as for `advantages`; without groups=.

    >>> rollout_scores("vpo", [[[[1, 0], [0, 1]], [[1, 0], [1, 0]]]]).tolist()
    [[0.75, 0.5]]
    """
    return estimate(method, R, weights=weights, alpha=alpha, w_star=w_star).score


def estimate(
    method: str,
    R: Rewards,
    *,
    weights: Rewards | Mapping | None = None,
    alpha: float = 1.0,
    w_star: Rewards | Mapping | None = None,
    k: int | None = None,
    eps: float = 1e-6,
    whiten: bool = False,
    groups: Iterable | None = None,
) -> Estimate:
    """Score and advantage of every rollout, as an `Estimate`. Arguments as for `advantages`."""
    check_choice(method, "method", METHODS)
    alpha = check_alpha(alpha)
    eps = check_number(eps, "eps", "a finite number, 0 to 1e+100", 0, LARGEST)
    check_truth(whiten, "whiten")
    if whiten:
        check_whiten(method)
        credit = dict(w_star=w_star, k=k, eps=eps, groups=groups)
        score, advantage = estimate(method, R, **credit)
        # Their mean is 0 in each group already, so groups without advantages keep none.
        return Estimate(score, advantage / (np.sqrt(np.mean(advantage**2)) + max(eps, 1e-300)))
    settings = dict(alpha=alpha, k=k, eps=eps)
    if groups is not None:
        return _group_by_group(method, R, groups, weights, w_star, settings)
    if isinstance(R, list | tuple):
        R = [check_finite(r, f"R[{p}]", 0) for p, r in enumerate(R)]
        if len({r.shape for r in R}) > 1:
            return _prompt_by_prompt(method, R, weights, w_star, settings)
    R = check_rewards(R)
    if R.ndim != 4 or 0 in R.shape:
        raise ValueError(
            f"R has shape {R.shape}: expected (P, G, m, d), none of them 0, or a list of P arrays "
            "(G, m, d_p); for rollouts in one row, (N, m, d), give groups="
        )
    P, _, m, d = R.shape
    if METHODS[method].single_answer and m != 1:
        raise ValueError(
            f"R has shape {R.shape}: {method} is defined for one answer per rollout, m = 1, not "
            f"m = {m}"
        )
    weights = _checked_weights(method, weights, R.shape)
    if w_star is None:
        w_star = np.full(d, 1 / d)
    w_star = check_finite(w_star, "w_star", 1, LARGEST_WEIGHT)
    if w_star.shape not in {(d,), (P, d)}:
        raise ValueError(f"w_star has shape {w_star.shape}: expected {(d,)} or {(P, d)}")
    w_star = np.broadcast_to(w_star, (P, d))
    how = METHODS[method]
    if how.weights == "none":
        _check_not_all_zero(w_star, "w_star")
    given = R, weights, w_star
    if not how.ours:  # it may work in place
        given = (None if x is None else x.copy() for x in given)
    r, W, w = given
    try:
        found = how.estimate(r, weights=W, w_star=w, **settings)
    except Exception as error:
        if how.ours or isinstance(error, MemoryError):  # of full memory training says what to lower
            raise
        exact = weights is None and how.weights == "many"
        cure = "; with K = inf its weights are None: let it handle that, or give a finite K" * exact
        raise ValueError(f"method {method!r} raised {raised_by(error)}{cure}") from error
    if how.z_score:
        return _compared(
            method, found, R, w_star[:, None] if how.weights == "none" else weights, eps
        )
    return _checked(method, found, R.shape[:2])


def check_whiten(method: str) -> None:
    """Raise ValueError for a method whose advantages are not whitened over the batch."""
    if method not in WHITENED:
        told = " and ".join(WHITENED)
        raise ValueError(f"whiten = True: only {told} have this option, not {method}; leave it out")


def _checked_weights(method, weights, shape):
    """The weights of a method that draws some, as an array that fits R of this shape."""
    P, G, _, d = shape
    drawn = METHODS[method].weights
    if drawn == "none":
        return None
    if weights is not None:
        weights = check_weights(weights, "weights")
        if weights.shape == (1, d) and P == 1:
            weights = weights[None]
    if drawn == "one" and (weights is None or weights.shape != (P, 1, d)):
        given = "is missing" if weights is None else f"has shape {weights.shape}"
        raise ValueError(
            f"weights {given}: {method} needs one row of sample_weights, (1, {d}), for each prompt"
        )
    if drawn == "many" and weights is not None:
        *prompts, K, d_w = weights.shape
        if K == 0 or d_w != d or prompts not in ([], [P], [P, G]):
            raise ValueError(
                f"weights has shape {weights.shape}: {method} needs (K, {d}) for each prompt, or "
                f"for all; R has shape {shape}"
            )
        if not prompts:
            weights = np.broadcast_to(weights, (P, K, d))
    if weights is not None:
        _check_not_all_zero(weights, "weights")
    return weights


def _check_not_all_zero(weights, name):
    """Raise ValueError where the weights (P, ..., d) of a prompt are all 0: nothing would count."""
    wrong = ~weights.reshape(len(weights), -1).any(axis=1)
    if wrong.any():
        of = f" for prompt {wrong.argmax()}" if not wrong.all() else ""
        raise ValueError(f"{name} holds nothing but zeros{of}: all scores would be equal")


def _compared(method, found, R, W, eps):
    """The `Estimate` of scores alone. W: the weights that made them, None for all of them."""
    score, error = found[:2] if isinstance(found, ExactReward) else (found, 0.0)
    score = check_finite(score, f"what method {method!r} returned", 0, np.inf)
    if score.shape != R.shape[:2]:
        raise ValueError(
            f"method {method!r} returned shape {score.shape}: with z_score=True expected its "
            f"scores alone, {R.shape[:2]}"
        )
    size = abs(R).max(axis=(1, 2, 3))[:, None] if W is None else _size(R, W)
    return Estimate(score, zscore(score, eps, size, error))


def _checked(method, found, shape):
    """What a method returned, as an `Estimate`: a method of a reader's own may return anything."""
    if not isinstance(found, tuple) or len(found) != 2:
        raise ValueError(
            f"method {method!r} returned no pair (score, advantage), each {shape}; for scores "
            "alone write method(z_score=True)"
        )
    named = zip(("score", "advantage"), found, strict=True)
    parts = [check_finite(x, f"{name} of method {method!r}", 0, np.inf) for name, x in named]
    most = abs(parts[1]).max(initial=0)
    if most > MOST_ADVANTAGE and not METHODS[method].ours:  # of ours some grow with the rewards
        raise ValueError(
            f"advantage of method {method!r} is up to {most:.3g}: a loss in float32 cannot hold "
            f"more than {MOST_ADVANTAGE:g}; divide by the group's spread, as estimators.zscore does"
        )
    for name, x in zip(("score", "advantage"), parts, strict=True):
        if x.shape != shape:
            raise ValueError(f"{name} of method {method!r} has shape {x.shape}: expected {shape}")
    return Estimate(*parts)


def _prompt_by_prompt(method, R, weights, w_star, settings):
    """`estimate` of prompts that differ in shape: a list of arrays (G, m, d_p)."""
    if len({r.shape[:1] for r in R}) > 1 or {r.ndim for r in R} != {3}:
        raise ValueError(
            f"R holds prompts of the shapes {shown([r.shape for r in R])}: expected (G, m, d_p) "
            "with the same G for all prompts; for groups of other sizes give groups="
        )
    rollouts, prompts = [r for group in R for r in group], [p for p, r in enumerate(R) for _ in r]
    found = _group_by_group(method, rollouts, prompts, weights, w_star, settings, "prompt")
    return Estimate(*(x.reshape(len(R), -1) for x in found))


def _group_by_group(method, R, groups, weights, w_star, settings, what="group"):
    """`estimate` of N rollouts in any order: R (N, m, d), groups (N,) labels; what: their word."""
    listed = isinstance(R, list | tuple)
    R = [check_finite(r, f"R[{n}]", 0) for n, r in enumerate(R)] if listed else check_rewards(R)
    shapes = {f"R[{n}]": r.shape for n, r in enumerate(R)} if listed else {"R": R.shape}
    for name, shape in shapes.items():
        if len(shape) != 3 - listed:
            expected = "(m, d)" if listed else "(N, m, d), with a row for each label"
            raise ValueError(f"{name} has shape {shape}: with groups= expected {expected}")
    rows = {}
    try:
        for n, label in enumerate(groups):
            label = label.item() if hasattr(label, "item") else label  # equal tensors hash apart
            rows.setdefault(label, []).append(n)
    except (TypeError, ValueError, RuntimeError):  # no list; a label that is one
        raise ValueError(f"groups = {shown(groups)}: expected one label for each rollout") from None
    if any(label != label for label in rows):
        raise ValueError("groups holds NaN, which is equal to no label: give each rollout a label")
    count = sum(map(len, rows.values()))
    if count != len(R) or not count:
        raise ValueError(f"groups has {count} labels for {len(R)} rollouts: expected as many")
    weights = _per_prompt(weights, "weights", rows, 2)
    w_star = _per_prompt(w_star, "w_star", rows, 1)
    found = Estimate(np.empty(len(R)), np.empty(len(R)))
    for (label, members), W, w in zip(rows.items(), weights, w_star, strict=True):
        shapes = {R[n].shape for n in members}
        if len(shapes) > 1:
            raise ValueError(
                f"{what} {shown(label)} has rollouts of the shapes {shown(shapes)}: expected one "
                "(m, d); let a missing answer have the worst rewards"
            )
        one = np.array([[R[n] for n in members]])
        w = None if w is None else [w]
        with told_of(f"{what} {shown(label)}"):
            part = estimate(method, one, weights=W, w_star=w, **settings)
        for whole, values in zip(found, part, strict=True):
            whole[members] = values[0]
    return found


# ---- the methods ----


@method(weights="many", z_score=True)
def vpo(R, *, weights, alpha, **_):
    """(1/K) sum_j max_i w_j . r_i (2605.22817).

    The max stands inside the mean: an answer pays if it is the best for some of the weights.
    """
    return compared_set_rewards(R, alpha) if weights is None else set_reward(R, weights)


@method(single_answer=True, z_score=True)
def grpo(R, *, w_star, **_):
    """w* . r of the one answer (2402.03300)."""
    return scalar(R, w_star)[..., 0]


@method(z_score=True)
def multi_rlvr(R, *, w_star, **_):
    """The sum of w* . r over the m answers (2603.24844).

    The prompt is VPO's. But the sum is highest if the best answer is repeated m times, so training
    gives a repeated answer the task's worst rewards.
    """
    return scalar(R, w_star).sum(axis=-1)


@method(z_score=True)
def set_max(R, *, w_star, **_):
    """The max of w* . r over the m answers (ours).

    VPO's prompt and its max, but under the fixed weights w* alone: VPO with K = 1 and w = w*. It
    separates what the max over a set does from what random weights do.

    >>> rollout_scores("set_max", [[[[1, 0], [0, 1]], [[0.6, 0.6], [0, 0]]]]).tolist()
    [[0.5, 0.6]]
    """
    return scalar(R, w_star).max(axis=-1)


@method(single_answer=True)
def max_at_k(R, *, w_star, k, **_):
    """By how much an answer raises the best of k (2510.23393): see `max_at_k_advantage`."""
    r = scalar(R, w_star)[..., 0]
    return Estimate(r, max_at_k_advantage(r, k, _size(R, w_star[:, None])))


@method(single_answer=True)
def gdpo(R, *, w_star, eps, **_):
    """The z-scores of the d objectives, each taken alone, then averaged (GDPO, as in 2605.22817).

    So an objective with large rewards does not drown the others. The score is w* . r. The advantage
    does not depend on w*: other weights change what is measured, and not what is trained. GDPO's
    own code, TRL and the paper's code also whiten them over the batch: `whiten` of `advantages`.

    >>> R = [[[[1, 0]], [[0, 0]], [[0, 3]]]]
    >>> advantages("gdpo", R, w_star=[9, 1]).tolist() == advantages("gdpo", R).tolist()
    True
    >>> advantages("gdpo", R, whiten=True).round(3).tolist()  # their squares have the mean 1
    [[0.707, -1.414, 0.707]]
    """
    objectives = np.moveaxis(R[..., 0, :], -1, 0)
    return Estimate(scalar(R, w_star)[..., 0], zscore(objectives, eps).mean(axis=0))


@method(single_answer=True)
def maxrl(R, *, w_star, eps, **_):
    """(r - mean) / (mean + eps) with r = w* . r >= 0: rare successes weigh more (2602.02710)."""
    r = scalar(R, w_star)[..., 0]
    if is_below(r, 0).any():
        raise ValueError(
            f"R gives the scalar reward {r.min():g}: maxrl divides by the mean, so it needs "
            "rewards >= 0; add what lifts the least one to 0, or take another method"
        )
    r = np.maximum(r, 0.0)
    mean = r.mean(axis=-1, keepdims=True)
    flat = _flat(r, _size(R, w_star[:, None]))
    return Estimate(r, np.where(flat, 0.0, (r - mean) / (mean + max(eps, 1e-300))))


@method(single_answer=True, weights="one", z_score=True)
def random_weighting(R, *, weights, **_):
    """w . r with one w ~ Dir(alpha) per prompt, not shown to the policy (ablation, 2605.22817)."""
    return set_reward(R, weights)


@method(single_answer=True, weights="one", weight_in_prompt=True, z_score=True)
def goal_conditioned(R, *, weights, **_):
    """w . r with one w ~ Dir(alpha) per prompt, written into it (ablation, 2605.22817).

    The numbers are those of `random_weighting`. Training writes w into the prompt: see
    `vpo_lite.training.rollouts`. In another loop that is for you to do.
    """
    return random_weighting(R, weights=weights)


@method(weights="many", recombines=True, z_score=True)
def vpo_recombined(R, *, weights, alpha, **_):
    """VPO's number, for groups in which one rollout is recombined (ours).

    Before it is compared, the best set of m answers found so far, whoever wrote them, takes the
    place of one rollout of the group: see `vpo_lite.training.recombine`. Rare answers are then
    learnt from at once. Only the native trainer does this. Here the numbers are those of `vpo`.
    """
    return vpo(R, weights=weights, alpha=alpha)


# ---- what they are made of ----


def scalar(R: np.ndarray, w_star: np.ndarray) -> np.ndarray:
    """w* . r of every answer: R (P, G, m, d), w_star (P, d) -> (P, G, m)."""
    return np.einsum("pgmd,pd->pgm", R, w_star)


def zscore(
    x: ArrayLike, eps: float = 1e-6, size: ArrayLike = 0.0, error: ArrayLike = 0.0
) -> np.ndarray:
    """(x - mean) / (std + eps) over the last axis, with the population std.

    Exactly 0 where std < 1e-9, or below 1e-12 of the largest |x|, or of `size`: how large x would
    be if nothing in it had cancelled. `size` is a number or of the shape of x, with last axis 1.
    Also 0 where the highest x lies above the lowest by less than 4 times the largest `error`, the
    standard error of x - mean, a number or of the shape of x: then the differences are noise.

    Two different scores always become -1 and 1:

    >>> zscore([[0.2, 0.9], [0.35, 0.35]], eps=0).round(6).tolist()
    [[-1.0, 1.0], [0.0, 0.0]]
    """
    x = check_finite(x, "x", 1, np.inf)
    centred, std = x - x.mean(axis=-1, keepdims=True), x.std(axis=-1, keepdims=True)
    noise = np.ptp(x, axis=-1, keepdims=True) < NOISE * np.max(error, axis=-1, keepdims=True)
    return np.where(_flat(x, size) | noise, 0.0, centred / (std + max(eps, 1e-300)))


def max_at_k_advantage(r: ArrayLike, k: int | None = None, size: ArrayLike = 0.0) -> np.ndarray:
    """How the best of k gains from rollout i, r (P, G) -> (P, G).

    That is the mean of the max over all k-subsets of the group that contain i, minus the mean over
    those that do not. The second mean is a baseline that does not depend on rollout i. There is no
    division by the std. k as in `advantages`, `size` as in `zscore`. Raises ValueError for G = 1
    and for another k. Source: 2510.23393, 2505.15201.

    >>> max_at_k_advantage([[0, 0, 1]], k=2).round(6).tolist()
    [[-0.5, -0.5, 1.0]]
    """
    r = check_finite(r, "r", 1, np.inf)
    G = r.shape[-1]
    k = min(max(2, G // 2), G - 1) if k is None else k
    if G < 2:
        raise ValueError(
            f"G = {G}: max_at_k compares a rollout with the others, so it needs at least 2 in a "
            "group"
        )
    check_whole(k, "k", most=G - 1)
    order = r.argsort(axis=-1)
    r_sorted = np.take_along_axis(r, order, axis=-1)
    # Without i, the others keep their order: other j > i has place j - 1 among them. Other j is
    # the max of a random subset of them with the probability in `max_weights`.
    company = np.append(0.0, max_weights(G - 1, k - 1))
    # with_i is r_i + E max(best of k - 1 others - r_i, 0)
    with_i = r_sorted + _sum_above(r_sorted * company) - r_sorted * _sum_above(company)
    rivals = max_weights(G - 1, k)
    below, above = np.append(rivals, 0.0), np.append(0.0, rivals)
    without_i = _sum_below(r_sorted * below) + _sum_above(r_sorted * above)
    advantage = np.empty_like(r_sorted)
    np.put_along_axis(advantage, order, with_i - without_i, axis=-1)
    rounded = abs(advantage) < 1e-12 * abs(r).max(axis=-1, keepdims=True)
    return np.where(_flat(r, size) | rounded, 0.0, advantage)


def max_weights(n: int, k: int) -> np.ndarray:
    """The probability that the j-th smallest of n is the max of a random k-subset, j = 0..n-1.

    It is C(j, k-1) / C(n, k), computed by recurrence from the top, k / n, so nothing overflows.

    >>> max_weights(4, 2).round(6).tolist()  # of 6 pairs: 0, 1, 2, 3
    [0.0, 0.166667, 0.333333, 0.5]
    """
    j = np.arange(n - 1, 0, -1)
    return np.cumprod(np.append(k / n, np.maximum(j - k + 1, 0) / j))[::-1]


def _sum_below(x):
    """For each i the sum of x_j over j < i."""
    return np.cumsum(x, axis=-1) - x


def _sum_above(x):
    """For each i the sum of x_j over j > i."""
    return np.flip(np.cumsum(np.flip(x, axis=-1), axis=-1), axis=-1) - x


def _flat(x, size=0.0):
    """Whether x spreads no more than rounding over the last axis, which is kept."""
    largest = np.maximum(abs(x).max(axis=-1, keepdims=True), size)
    return x.std(axis=-1, keepdims=True) < np.maximum(FLOOR, ROUNDING * largest)


def _size(R, W):
    """What the largest rewards of each group would score, if nothing cancelled: (P, 1).

    W (P, K, d) or (P, G, K, d).
    """
    W = abs(W).reshape(len(W), -1, W.shape[-1]).mean(axis=1)
    return (abs(R).max(axis=(1, 2)) * W).sum(axis=-1, keepdims=True)


def _per_prompt(values, name, labels, shared):
    """The weights of each prompt, or group: from a dict, one for all, or one for each.

    shared: the dimensions of an array for all
    """
    if values is None:
        return [None] * len(labels)
    if isinstance(values, Mapping):
        for label in labels:
            if label not in values:
                raise ValueError(f"{name} has no entry for group {shown(label)}")
        return [values[label] for label in labels]
    if not isinstance(values, list | tuple):
        values = check_finite(values, name, shared, LARGEST_WEIGHT)
    parts = [check_finite(x, f"{name}[{p}]", 0, LARGEST_WEIGHT) for p, x in enumerate(values)]
    if len({part.shape for part in parts}) == 1 and parts[0].ndim == shared - 1:
        return [np.array(parts)] * len(labels)
    if len(parts) != len(labels):
        form = {1: "(d,)", 2: "(K, d)"}[shared]
        raise ValueError(
            f"{name} has shapes {shown([part.shape for part in parts])}: expected one array {form} "
            f"for all, or a list of {len(labels)}, one for each prompt or group"
        )
    return parts
