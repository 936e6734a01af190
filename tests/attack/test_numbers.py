"""Every public function of the core under attack: a right answer, or a ValueError of one line.

What is right is worked out here in exact fractions, by definitions and brute force, from whatever
was accepted. Warnings are errors, so a warning counts as a fault.
"""

import math
import random
import tracemalloc
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, pairwise
from numbers import Real

import attacks
import numpy as np
import pytest
from scipy import sparse

import vpo_lite as vpo
from envs import Maze
from vpo_lite import metrics, objective
from vpo_lite.checks import shown
from vpo_lite.objective import nondominated
from vpo_lite.options import Option
from vpo_lite.randomness import generator, integer
from vpo_lite.tasks import task_class

# ---- exact references ----


def fractions(x):
    """What was accepted, number by number. Fails on anything that is not real and unmasked."""
    assert not np.ma.is_masked(x)
    x = np.array(x, dtype=object)
    for i, value in enumerate(x.flat):
        if isinstance(value, np.ndarray):  # an array in a list, such as a masked one without masks
            assert value.shape == () and not np.ma.is_masked(value)
            x.flat[i] = value = value.item()
        assert isinstance(value, Real | np.bool_) and not np.ma.is_masked(value), value
    exact = [Fraction(float(value)) for value in x.flat]
    return np.array([*exact, None], dtype=object)[:-1].reshape(x.shape)


def utility(R, alpha=1):
    """E max_i w . r_i exactly: d = 1, or d = 2 and whole alpha, or alpha = 1 and two answers."""
    d = R.shape[1]
    if d == 1:
        return max(R[:, 0])
    if d == 2 and alpha in (1, 2, 3):
        return envelope(R, int(alpha))
    if alpha == 1 and len(R) <= 2 and len(set(R[0] - R[-1])) == d:
        c = R[0] - R[-1]  # E max(w . c, 0) is a divided difference (Hermite and Genocchi)
        parts = [max(x, 0) ** d / math.prod(x - y for y in c if y != x) for x in c]
        return sum(R[-1]) / d + sum(parts) / d
    return None


def envelope(R, alpha):
    """d = 2: the lines over w_1 in pieces, times x^(alpha - 1) (1 - x)^(alpha - 1) / B."""
    slope, start = R[:, 0] - R[:, 1], R[:, 1]
    cuts = {Fraction(0), Fraction(1)}
    for i, j in combinations(range(len(R)), 2):
        if slope[i] != slope[j]:
            cuts.add((start[j] - start[i]) / (slope[i] - slope[j]))
    cuts = sorted(x for x in cuts if 0 <= x <= 1)

    def moment(power, low, high):
        """The integral of x^power times the density."""
        total = 0
        for i in range(alpha):
            p = power + alpha - 1 + i
            total += (
                math.comb(alpha - 1, i) * (-1) ** i * (high ** (p + 1) - low ** (p + 1)) / (p + 1)
            )
        return total * math.factorial(2 * alpha - 1) / math.factorial(alpha - 1) ** 2

    total = Fraction(0)
    for low, high in pairwise(cuts):
        best = max(range(len(R)), key=lambda i: start[i] + slope[i] * (low + high) / 2)
        total += start[best] * moment(0, low, high) + slope[best] * moment(1, low, high)
    return total


def near(found, exact, scale, tolerance=1e-11):
    """Whether a float is an exact number, to a part of the scale and the smallest float."""
    assert math.isfinite(found)
    return abs(Fraction(float(found)) - exact) <= Fraction(tolerance) * scale + Fraction(5e-324)


def sets_of(R):
    """The sets (m, d) of R (..., m, d), as fractions, and the largest size in each."""
    R = fractions(R)
    return [(r, max(abs(r).flat)) for r in R.reshape(-1, *R.shape[-2:])]


# ---- what each function must satisfy ----


def right_utility(found, R, alpha=1.0, points=None, **_):
    value, error, _ = found
    assert value.shape == np.shape(R)[:-2]
    for (r, scale), u, e in zip(sets_of(R), value.flat, error.flat, strict=True):
        best_single, ideal = max(r.sum(axis=1)) / r.shape[1], sum(r.max(axis=0)) / r.shape[1]
        exact = utility(r, alpha)
        assert e >= 0
        if exact is not None and (r.shape[1] <= 2 or e <= 1e-10 * scale):
            assert near(u, exact, scale)
        slack = Fraction(1e-12) * scale + Fraction(5e-324)
        assert best_single - slack <= Fraction(u) <= ideal + slack


def right_shares(found, R, alpha=1.0):
    assert found.shape == np.shape(R)[:-1] and (found >= -1e-12).all()
    assert found.sum(axis=-1) == pytest.approx(1, abs=1e-9)


def scores_of(R, W):
    for r, scale in sets_of(R):
        w = fractions(W)
        yield r @ w.T, scale * max(abs(w).sum(axis=1))


def right_set_reward(found, R, W):
    for (scores, scale), u in zip(scores_of(R, W), np.ravel(found), strict=True):
        assert near(u, sum(scores.max(axis=0)) / scores.shape[1], scale)


def right_winners(found, R, W):
    for (scores, scale), who in zip(scores_of(R, W), found.reshape(-1, len(W)), strict=True):
        for j, i in enumerate(who):
            assert scores[i, j] >= max(scores[:, j]) - Fraction(1.1e-12) * scale - Fraction(1e-320)


def right_nondominated(found, R):
    for (r, _), mask in zip(sets_of(R), found.reshape(-1, np.shape(R)[-2]), strict=True):
        for i, a in enumerate(r):
            others = [(j, b) for j, b in enumerate(r) if j != i and (b >= a).all()]
            assert mask[i] != any((b > a).any() or j < i for j, b in others)


def right_advantages(found, method, R, weights=None, w_star=None, eps=1e-6, **_):
    R = fractions(R)
    assert found.shape == R.shape[:2] and np.isfinite(found).all()
    P, _, _, d = R.shape
    w = np.full(d, Fraction(1, d)) if w_star is None else fractions(w_star)
    for p in range(P):
        one = w if w.ndim == 1 else w[p]
        if method in ("random_weighting", "goal_conditioned"):
            one = fractions(weights)[p, 0]
        scores = R[p] @ one
        score = {"multi_rlvr": scores.sum(axis=1)}.get(method, scores.max(axis=1))
        size = sum(abs(R[p]).max(axis=(0, 1)) * abs(one)) * R.shape[2]
        centred = score - sum(score) / len(score)
        spread = max(abs(centred))
        elsewhere = ("vpo", "vpo_recombined", "max_at_k", "gdpo", "maxrl")
        if method in elsewhere or spread < 10 * max(Fraction(2e-9), Fraction(1e-11) * size):
            continue  # see the tests of tests/test_estimators.py
        unit = centred / spread
        std = math.sqrt(sum(unit**2) / len(unit)) + float(Fraction(float(eps)) / spread)
        rounding = float(Fraction(1e-13) * size / spread)
        assert found[p] == pytest.approx(unit.astype(float) / std, abs=1e-9 + rounding)


def right_best_at_k(found, scores, k):
    for s, value in zip(
        fractions(scores).reshape(-1, np.shape(scores)[-1]), np.ravel(found), strict=True
    ):
        subsets = [max(x) for x in combinations(s, int(k))]
        assert near(value, sum(subsets) / len(subsets), max(abs(s)))


def right_pass_at_k(found, n, c, k):
    shape = np.shape(found)
    n, c, k = (np.broadcast_to(fractions(x), shape).ravel() for x in (n, c, k))
    for x, n_, c_, k_ in zip(np.ravel(found), n, c, k, strict=True):
        assert n_ == int(n_) and c_ == int(c_) and k_ == int(k_)
        expected = 1 - Fraction(math.comb(int(n_ - c_), int(k_)), math.comb(int(n_), int(k_)))
        assert near(x, expected, 1)


def right_diversity(found, R, valid=None):
    sets = sets_of(R)
    flags = np.ones(np.shape(R)[:-1]) if valid is None else fractions(valid)
    flags = flags.reshape(len(sets), -1)
    for (r, scale), flag, value in zip(sets, flags, np.ravel(found), strict=True):
        assert set(flag) <= {0, 1}
        pairs = [sum(abs(a - b)) for a, b in combinations(r[flag.astype(bool)], 2)]
        mean = sum(pairs, Fraction(0)) / max(len(pairs), 1)
        assert near(value, mean, scale * r.shape[1])


def right_coverage(found, R, front, alpha=1.0, points=None):
    whole = utility(fractions(front), alpha)
    for (r, scale), value in zip(sets_of(R), np.ravel(found), strict=True):
        assert math.isfinite(value)
        if whole is not None and r.shape[1] <= 2:
            size = max(abs(fractions(front)).flat) / whole
            relative = abs(Fraction(float(value)) - utility(r, alpha) / whole)
            allowed = Fraction(1e-11) * (scale / whole + size * scale / whole)
            assert relative <= allowed + Fraction(5e-324)


def volume(r):
    """By inclusion and exclusion over all subsets."""
    r = [x for x in r if min(x) > 0]
    return sum(
        (-1) ** (n + 1) * math.prod(np.min(some, axis=0))
        for n in range(1, len(r) + 1)
        for some in combinations(r, n)
    )


def right_hypervolume(found, R, front=None):
    whole = 1 if front is None else volume(fractions(front))
    for (r, _), value in zip(sets_of(R), np.ravel(found), strict=True):
        exact = volume(r) / Fraction(whole)
        assert near(value, exact, exact, 1e-10)


def right_subset(found, rewards, m, alpha=1.0):
    R = fractions(rewards)
    chosen = utility(R[found.indices], alpha)
    assert len(found.indices) <= m and math.isfinite(found.value)
    if chosen is not None and R.shape[1] <= 2:
        scale = max(abs(R).flat)
        assert near(found.value, chosen, scale)
        subsets = combinations(range(len(R)), min(m, len(R)))
        assert near(found.value, max(utility(R[list(s)], alpha) for s in subsets), scale)


def right_price(found, front, sizes=(1, 2, 3), alpha=1.0):
    shares = [found[m] for m in sorted(found)]
    assert set(found) == {int(m) for m in sizes}
    assert all(0 <= x <= 1 + 1e-2 for x in shares) or min(fractions(front).flat) < 0
    assert all(b >= a - 1e-2 for a, b in pairwise(shares))


def right_front_share(found, R, front):
    points = {tuple(x) for x in fractions(front)}
    best = [p for p in points if not any(q != p and all(np.array(q) >= p) for q in points)]
    for (r, _), value in zip(sets_of(R), np.ravel(found), strict=True):
        exactly = sum(any(tuple(a) == p for a in r) for p in best) / len(best)
        assert exactly - 1e-12 <= value <= 1  # it may count points that are near, too


def right_sets(found, rewards, size):
    flat = fractions(rewards).reshape(-1, np.shape(rewards)[-1])
    m = min(int(size), len(flat))
    assert found.shape == (len(flat) // m, m, flat.shape[1])
    assert all(Fraction(float(a)) == b for a, b in zip(found.flat, flat.flat, strict=False))


def right_weights(found, K, d, alpha=1.0, rng=None, method="iid"):
    assert found.shape == (K, d) and (found >= 0).all()
    assert found.sum(axis=1) == pytest.approx(1, abs=1e-12)


def right_draw(found, seed, purpose, step=0, key=""):
    assert 0 <= found < 2**63 and found == integer(seed, purpose, step, key)
    assert generator(seed, purpose, step, key).random() < 1


def right_option(found, value):
    assert type(found) is float and found == value and 0.5 <= found <= 2e6


def right_text(found, text):
    assert isinstance(text, str) and (text == str(found) == "inf" or found == int(text))


# ---- the calls that are attacked ----


def numbers(rng, *shape):
    """Rewards of many kinds: random, counted, of any size, of mixed sizes."""
    kind = rng.integers(4)
    x = rng.random(shape) if kind else rng.integers(0, 3, shape) / 2
    if kind == 2:
        x = x * 10.0 ** rng.uniform(-300, 99)
    if kind == 3:
        x = (x - 0.3) * 10.0 ** rng.integers(-9, 9, shape[-1])
    return x


def calls(rng):
    """name -> (function, its arguments, what must hold of the result)."""
    m, d, G = (int(x) for x in rng.integers(1, 4, 3))
    G += 1
    R, pool, front = numbers(rng, 2, m, d), numbers(rng, 4, d), numbers(rng, 3, d)
    W = rng.dirichlet(np.ones(d), size=3)
    alpha = float(rng.choice([1.0, 2.0, 3.0, 0.4]))
    name = str(rng.choice(list(vpo.METHODS)))
    one = vpo.METHODS[name].single_answer
    step = {"R": numbers(rng, 2, G, 1 if one else m, d)}
    if name == "maxrl":
        step["R"] = abs(step["R"])
    if vpo.METHODS[name].weights == "one":
        step["weights"] = rng.dirichlet(np.ones(d), size=(2, 1))
    step |= {"alpha": alpha, "w_star": rng.dirichlet(np.ones(d)), "k": 1, "eps": 0.0}
    seeded = np.random.default_rng(1)
    draw = {"seed": 3, "purpose": "weights", "step": 2, "key": ["a", 1, {"b": 0.5}]}
    x = Option("x", float, 1.0, "", least=0.5, most=2e6)
    k = Option("K", int, 4, "", least=1, inf=True)
    return {
        "exact": (
            lambda **a: vpo.exact_set_reward(full_output=True, **a),
            {"R": R, "alpha": alpha, "points": 64},
            right_utility,
        ),
        "shares": (vpo.exact_shares, {"R": R, "alpha": alpha}, right_shares),
        "set_reward": (vpo.set_reward, {"R": R, "W": W}, right_set_reward),
        "winners": (vpo.winners, {"R": R, "W": W}, right_winners),
        "nondominated": (nondominated, {"R": R}, right_nondominated),
        "advantages": (vpo.advantages, {"method": name, **step}, right_advantages),
        "best_at_k": (vpo.best_at_k, {"scores": pool, "k": 1}, right_best_at_k),
        "pass_at_k": (vpo.pass_at_k, {"n": [9, 4], "c": [3, 0], "k": 2}, right_pass_at_k),
        "diversity": (vpo.diversity, {"R": pool, "valid": [1, 0, 1, 1]}, right_diversity),
        "coverage": (
            vpo.coverage,
            {"R": R, "front": front, "alpha": alpha, "points": 64},
            right_coverage,
        ),
        "hypervolume": (vpo.hypervolume, {"R": R, "front": front}, right_hypervolume),
        "volume": (vpo.hypervolume, {"R": R}, right_hypervolume),
        "best_subset": (vpo.best_subset, {"rewards": pool, "m": 2, "alpha": alpha}, right_subset),
        "price": (
            vpo.price_of_conflict,
            {"front": front, "sizes": [1, 2], "alpha": alpha},
            right_price,
        ),
        "front_share": (metrics.front_share, {"R": R, "front": front}, right_front_share),
        "as_sets": (metrics.as_sets, {"rewards": R, "size": 2}, right_sets),
        "sample_weights": (
            vpo.sample_weights,
            {"K": 5, "d": 3, "alpha": alpha, "rng": seeded, "method": "sobol"},
            right_weights,
        ),
        "integer": (integer, draw, right_draw),
        "check": (x.check, {"value": 1.5}, right_option),
        "read": (k.read, {"text": "12"}, right_text),
    }


ODD = (
    ["vpo", "grpo"],
    ("1", "2"),
    b"12",
    1j,
    [[1 + 0j, 2]],
    np.array(["1", "2"]),
    np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[D]"),
    np.array([[1, 2]], dtype="timedelta64[s]"),
    [[date(2026, 1, 1)]],
    np.zeros((2, 2), dtype=[("a", float)]),
    sparse.identity(3),
    np.ma.array([[1.0, 2.0]], mask=[[True, False]]),
    [np.ma.array([1.0, 2.0], mask=[False, True]), [1.0, 2.0]],
    [[np.ma.masked, 1.0]],
    [[Decimal(1), Decimal(2)]],
    [[Fraction(1, 3), 2]],
    [[10**400, 1]],
    [[1, 2], [3]],
    {1, 2},
    range(3),
    np.random.default_rng(0),
    object(),
    len,
    np.float32(0.5),
    np.int8(2),
    np.float64("nan"),
    np.longdouble("1e4000"),
    np.array(2),
    np.array([]),
    np.broadcast_to(1.0, (10**6, 10**6)),
    Fraction(1, 2),
    Decimal("0.5"),
    1e-6,
    1e6,
    2**20,
    -(10**400),
    "sobol",
)


def mutated(x, rng, random_):
    """Another value in the place of an argument."""
    if rng.random() < 0.35 or not np.size(x) or isinstance(x, str | dict | np.random.Generator):
        return random_.choice((*attacks.NASTY, *ODD))
    if not isinstance(x, np.ndarray):
        other = attacks.mutated_json([x], random_)
        return other if rng.random() < 0.5 else random_.choice((0, -1, 2, 1e-6, 1e6, 2**20))
    changed = x.astype(float).copy()
    place = tuple(rng.integers(0, n) for n in x.shape)
    how = rng.integers(12)
    if how == 0:
        changed[place] = rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e101, 1e-320, 0.0, 1e99])
    elif how == 1:
        return attacks.mutated_json(x.tolist(), random_)
    elif how == 2:
        return np.ma.array(x, mask=np.arange(x.size).reshape(x.shape) == rng.integers(0, x.size))
    elif how == 3:
        kind = random_.choice((str, object, complex, bool, np.float16, np.longdouble, "m8[s]", int))
        with np.errstate(all="ignore"):
            return np.clip(x, -100, 100).astype(kind)
    elif how == 4:
        changed = np.swapaxes(changed, 0, -1)
    elif how == 5:
        changed = changed[0]
    elif how == 6:
        changed = changed[..., : rng.integers(0, x.shape[-1] + 1)]
    elif how == 7:
        changed = -changed
    elif how == 8:
        changed = changed * 0 + changed[place]
    elif how == 9:
        return [np.ma.array(x[0], mask=rng.random(x[0].shape) < 0.3), *x[1:]]
    else:
        with np.errstate(all="ignore"):
            changed = changed / abs(changed).max() * 10.0 ** rng.uniform(-330, 140)
    return changed


NAMES = list(calls(np.random.default_rng(0)))


@pytest.mark.parametrize("name", NAMES)
@attacks.seeds(24)
def test_an_answer_is_right_or_refused_in_one_line(name, seed):
    rng, random_ = np.random.default_rng([seed, NAMES.index(name)]), random.Random(seed)
    function, arguments, must_hold = calls(rng)[name]
    if seed % 8:
        place = random_.choice(list(arguments))
        arguments[place] = mutated(arguments[place], rng, random_)
    try:
        found = function(**arguments)
    except ValueError as error:
        attacks.check_error(error)
    else:
        must_hold(found, **arguments)


# ---- what fell in 0.1.0, by its number in the list of faults ----

CORE = {  # every function that takes rewards
    "exact_set_reward": vpo.exact_set_reward,
    "exact_shares": vpo.exact_shares,
    "set_reward": lambda R: vpo.set_reward(R, np.eye(2)),
    "set_reward_W": lambda R: vpo.set_reward(np.eye(2), R),
    "winners": lambda R: vpo.winners(R, np.eye(2)),
    "nondominated": nondominated,
    "advantages": lambda R: vpo.advantages("vpo", [[R, R]]),
    "advantages_weights": lambda R: vpo.advantages("vpo", np.ones((1, 2, 1, 2)), weights=[R]),
    "rollout_scores": lambda R: vpo.rollout_scores("multi_rlvr", [[R]]),
    "w_star": lambda R: vpo.rollout_scores("grpo", np.ones((2, 2, 1, 2)), w_star=R),
    "best_at_k": lambda R: vpo.best_at_k(R, 1),
    "diversity": vpo.diversity,
    "coverage": lambda R: vpo.coverage(R, np.eye(2)),
    "front": lambda R: vpo.coverage(np.eye(2), R),
    "hypervolume": vpo.hypervolume,
    "front_share": lambda R: metrics.front_share(R, np.eye(2)),
    "best_subset": lambda R: vpo.best_subset(R, 1),
    "price_of_conflict": vpo.price_of_conflict,
    "as_sets": lambda R: metrics.as_sets(R, 1),
}
NO_NUMBERS = {
    "masked": (np.ma.array(np.eye(2), mask=np.eye(2)), "masked"),
    "masked in a list": ([np.ma.array([1.0, 0], mask=[1, 0]), [0.0, 1]], "masked"),
    "the masked constant": ([[np.ma.masked, 1.0], [0.0, 1.0]], "masked"),
    "digits": ([["1", "0"], ["0", "1"]], "dtype <U1"),
    "digits in an array": (np.eye(2).astype(str), "dtype <U"),
    "dates": (np.array([["2026-01-01"] * 2] * 2, dtype="M8[D]"), "dtype datetime64"),
    "complex": (np.eye(2) * 1j, "dtype complex128"),
    "objects": ([[None, 1], [0, 1]], "no real numbers"),
    "Decimal": ([[Decimal(1), 0], [0, 1]], "no real numbers"),
    "sparse": (sparse.identity(2), "no real numbers"),
    "structured": (np.zeros((2, 2), dtype=[("a", float)]), "dtype"),
    "ragged": ([[1, 0], [1]], "rows of equal length"),
    "400 digits": ([[10**400, 0], [0, 1]], "beyond"),
    "nested too deep": (eval("[" * 40 + "]" * 40), "nested too deep"),
    "NaN": ([[math.nan, 0], [0, 1]], "values that are NaN"),
    "too large": ([[1.01e100, 0], [0, 1]], "scale the"),
}


@pytest.mark.parametrize("function", CORE)
@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_h9_only_real_finite_unmasked_numbers_are_rewards(function, kind):
    given, words = NO_NUMBERS[kind]
    with pytest.raises(ValueError, match=words) as error:
        CORE[function](given)
    attacks.check_error(error.value)


def test_h9_a_list_that_holds_itself_is_refused():
    endless = []
    endless += [endless, endless]
    with pytest.raises(ValueError, match="nested too deep"):
        vpo.exact_set_reward(endless)


@pytest.mark.parametrize("function", [vpo.exact_set_reward, vpo.exact_shares, vpo.diversity])
def test_h9_numbers_of_other_kinds_are_rewards(function):
    import torch

    expected = function(np.array([[1.0, 0.0], [0.0, 1.0]]))
    kinds = (bool, np.int8, np.uint64, np.float16, np.longdouble, object)
    given = [np.eye(2).astype(kind) for kind in kinds]
    given += [torch.eye(2), list(torch.eye(2)), np.ma.array(np.eye(2)), np.asmatrix(np.eye(2))]
    for R in [*given, [[Fraction(1), 0], [False, np.float32(1)]]]:
        assert (function(R) == expected).all()
    for R in (torch.eye(2, requires_grad=True), torch.eye(2).to_sparse(), torch.eye(2) * 1j):
        with pytest.raises(ValueError) as error:
            function(R)
        attacks.check_error(error.value)


SHAPES = [(1, 1), (4, 2), (3, 3), (4, 5), (6, 6)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("alpha", [0.001, 0.5, 1.0])
@pytest.mark.parametrize("power", [-1010, -300, -1, 40, 330])
def test_h9_a_power_of_two_changes_no_digit(shape, alpha, power):
    """Rewards of 1e-300 (.4 instead of .612) and of 1e99 are as good as rewards about 1."""
    for seed in range(3):
        R = np.random.default_rng(seed).integers(1, 2**20, shape) / 2**20  # no subnormal digits
        at_one = vpo.exact_set_reward(R, alpha, full_output=True, points=64)
        scaled = vpo.exact_set_reward(np.ldexp(R, power), alpha, full_output=True, points=64)
        assert scaled.method == at_one.method
        assert (scaled.value == np.ldexp(at_one.value, power)).all()
        assert (scaled.error == np.ldexp(at_one.error, power)).all()
        assert (vpo.exact_shares(np.ldexp(R, power)) == vpo.exact_shares(R)).all()
        W = np.random.default_rng(seed).dirichlet(np.ones(shape[1]), size=5)
        assert (vpo.winners(np.ldexp(R, power), W) == vpo.winners(R, W)).all()
        one, many = vpo.best_subset(R, 2), vpo.best_subset(np.ldexp(R, power), 2)
        assert (one.indices == many.indices).all() and many.value == np.ldexp(one.value, power)
        assert metrics.front_share(np.ldexp(R, power), np.ldexp(R, power)) == 1
        assert vpo.coverage(np.ldexp(R[:1], power), np.ldexp(R, power)) == vpo.coverage(R[:1], R)
        ratio = vpo.hypervolume(np.ldexp(R[:1], power), np.ldexp(R, power))
        assert ratio == vpo.hypervolume(R[:1], R)


@pytest.mark.parametrize("method", vpo.METHODS)
@pytest.mark.parametrize("power", [-20, 40, 330])
def test_h9_advantages_of_large_rewards_are_those_of_small_ones(method, power):
    m = 1 if vpo.METHODS[method].single_answer else 3
    R = np.random.default_rng(1).random((2, 4, m, 3))
    W = np.full((2, 1, 3), 1 / 4)
    at_one = vpo.advantages(method, R, weights=W, eps=0)
    scaled = vpo.advantages(method, np.ldexp(R, power), weights=W, eps=0)
    assert (scaled == (np.ldexp(at_one, power) if method == "max_at_k" else at_one)).all()
    assert abs(at_one).max() > 0.1


@pytest.mark.parametrize("method", ["vpo", "grpo", "multi_rlvr", "set_max", "max_at_k"])
@pytest.mark.parametrize("size", [1e6, 1e8, 1e20, 1e99])
def test_h9_equal_scores_of_large_rewards_are_no_noise(method, size):
    """(a, b, -a - b) scores 0 under equal weights, up to the rounding of a and b."""
    a = np.random.default_rng(0).random((1, 6, 1, 2)) * size
    R = np.concatenate([a, -a.sum(axis=-1, keepdims=True)], axis=-1)
    W = None if method != "vpo" else np.full((1, 1, 3), 1 / 3)
    assert (vpo.advantages(method, R, weights=W) == 0).all()
    assert (vpo.advantages(method, R * [1, 1, 1 + 1e-6], weights=W) != 0).any()


@pytest.mark.parametrize("alpha", [5e-324, 0.9e-6, 1.1e6, 1e308, math.inf, "1", True, None, [1.0]])
def test_h9_alpha_has_a_stated_range(alpha):
    rng = np.random.default_rng(0)
    for call in (
        lambda: vpo.exact_set_reward(np.eye(2), alpha),
        lambda: vpo.sample_weights(3, 2, alpha, rng=rng),
        lambda: vpo.coverage(np.eye(2), np.eye(2), alpha),
        lambda: vpo.TrainConfig(alpha=alpha),
    ):
        with pytest.raises(ValueError, match="alpha = ") as error:
            call()
        attacks.check_error(error.value)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_h9_alpha_at_its_ends_reaches_its_limits(d):
    """alpha -> 0: the mean of the best per objective. alpha -> infinity: the best mean."""
    R = np.random.default_rng(d).random((4, d))
    for alpha, limit in ((1e-6, R.max(axis=0).mean()), (1e6, R.mean(axis=1).max())):
        value, error, _ = vpo.exact_set_reward(R, alpha, full_output=True)
        assert value == pytest.approx(limit, abs=1e-3 + 6 * float(error))
        for method in ("iid", "sobol")[: 1 if alpha < 0.01 else 2]:
            W = vpo.sample_weights(4096, d, alpha, rng=np.random.default_rng(0), method=method)
            assert W.sum(axis=1) == pytest.approx(1, abs=1e-12) and (W >= 0).all()
            assert vpo.set_reward(R, W) == pytest.approx(limit, abs=0.03)


@pytest.mark.parametrize("alpha", [1e4, 1e6])
def test_h9_large_alpha_is_right_by_the_normal_law(alpha):
    """d = 2: w_1 is near N(1/2, 1 / (8 alpha + 4)), whose E max(w, 1 - w) is 1/2 + s sqrt(2/pi)."""
    s = 1 / math.sqrt(8 * alpha + 4)
    expected = s * math.sqrt(2 / math.pi) * (1 + 1 / (16 * alpha))
    gain = float(vpo.exact_set_reward(np.eye(2), alpha)) - 0.5
    assert gain == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("valid", [[1, -1, 1], [0.5, 1, 1], [2, 0, 0], ["1", "0", "1"], [None] * 3])
def test_h9_valid_takes_truth_values_only(valid):
    with pytest.raises(ValueError, match="valid") as error:
        vpo.diversity([[1, 0], [0, 1], [1, 1]], valid=valid)
    attacks.check_error(error.value)


# ---- H8 and sizes ----


@pytest.mark.parametrize("shape, m", [((60, 20), 3), ((170, 12), 6), ((64, 12), 6), ((682, 3), 20)])
def test_h8_the_best_subset_takes_bounded_memory(shape, m):
    R = np.sqrt(np.random.default_rng(0).dirichlet(np.ones(shape[1]), size=shape[0]))
    tracemalloc.start()
    indices, value = vpo.best_subset(R, m)  # no answer dominates another
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * 2**20
    assert len(set(indices)) == m
    assert value == pytest.approx(float(vpo.exact_set_reward(R[indices])), rel=1e-12)
    others = np.random.default_rng(1).permuted(np.tile(np.arange(len(R)), (20, 1)), axis=1)[:, :m]
    assert value > vpo.exact_set_reward(R[others]).max()


def test_h8_a_greedy_choice_over_points_is_as_good_as_over_exact_values(monkeypatch):
    R = np.sqrt(np.random.default_rng(0).dirichlet(np.ones(3), size=60))
    exactly = vpo.best_subset(R, 6)
    monkeypatch.setattr(metrics, "GREEDY", 0)
    quickly = vpo.best_subset(R, 6)
    assert quickly.value == pytest.approx(exactly.value, abs=1e-4)
    assert quickly.value == pytest.approx(float(vpo.exact_set_reward(R[quickly.indices])))
    everything = vpo.best_subset(R, 59)  # more than what wins anywhere
    assert len(everything.indices) == 59
    assert everything.value == pytest.approx(float(vpo.exact_set_reward(R)), abs=1e-3)


HUGE = np.broadcast_to(1.0, (10**5, 10**5))


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: vpo.exact_set_reward(HUGE), "10,000,000,000 numbers"),
        (lambda: vpo.exact_set_reward(HUGE[:20_000, :2]), "at most 10,000 answers"),
        (lambda: vpo.exact_set_reward(HUGE[:2, :5000]), "4,096 objectives"),
        (lambda: vpo.exact_set_reward(np.ones((200, 10_000, 1))), "in pairs"),
        (lambda: vpo.exact_set_reward(np.eye(4), points=2**21), "at most 1,048,576"),
        (lambda: vpo.exact_set_reward(np.eye(600), 2.0, points=2**20), "points / 8 = 131,072"),
        (
            lambda: vpo.exact_set_reward([np.eye(4)] * 2**13, 2.0, points=2**20),
            "34,359,738,368 scores",
        ),
        (lambda: vpo.set_reward(HUGE[:10_000, :1], HUGE[:10_000, :1]), "100,000,000 scores"),
        (lambda: vpo.sample_weights(10**9, 3, rng=np.random.default_rng(0)), "3,000,000,000"),
        (lambda: vpo.sample_weights(10**400, 3, rng=np.random.default_rng(0)), "K = 1000"),
        (lambda: vpo.sample_weights(4, 10**6, rng=np.random.default_rng(0)), "d = 1000000"),
        (lambda: vpo.pass_at_k(10**9, 5, 10**8), "n <= 10,000"),
        (lambda: vpo.hypervolume(1 - np.eye(30) / 2), "too long"),
        (lambda: vpo.hypervolume(np.ones((2, 32))), "31 objectives"),
    ],
)
def test_sizes_that_cannot_work_are_refused_with_the_numbers(call, words):
    with pytest.raises(ValueError, match=words) as error:
        call()
    attacks.check_error(error.value)


def test_many_scores_are_averaged_in_parts(monkeypatch):
    rng = np.random.default_rng(0)
    R, W = rng.random((3, 4, 5, 2)), rng.dirichlet(np.ones(2), size=(3, 6))
    whole = [vpo.set_reward(R, W), vpo.winners(R, W), vpo.set_reward(R, W[0]), nondominated(R)]
    whole += [vpo.diversity(R), vpo.sample_weights(9, 3, 2.0, rng=rng, method="sobol").sum(axis=1)]
    for module in (objective, metrics):
        monkeypatch.setattr(module, "BLOCK", 1)
    parts = [vpo.set_reward(R, W), vpo.winners(R, W), vpo.set_reward(R, W[0]), nondominated(R)]
    parts += [vpo.diversity(R), vpo.sample_weights(9, 3, 2.0, rng=rng, method="sobol").sum(axis=1)]
    for a, b in zip(whole, parts, strict=True):
        assert a.shape == b.shape and a == pytest.approx(b, abs=1e-14)


@pytest.mark.parametrize("size", [1e-100, 1e-60, 1e99])
def test_a_volume_that_is_no_float_is_refused_and_its_ratio_is_right(size):
    R, front = np.eye(4) * 0.5 + 0.5, np.ones((1, 4))
    with pytest.raises(ValueError, match="scale the rewards"):
        vpo.hypervolume(np.tile(R * size, 2))
    assert vpo.hypervolume(R * size, front * size) == pytest.approx(vpo.hypervolume(R))


# ---- M7 and the numeric low points ----


@pytest.mark.parametrize(
    "n, c, k",
    [(4, 1, 2.5), (4, 1, None), (4, 1, "2"), (4, 1, math.nan), (4, 1, 10**400), (4.5, 1, 2)]
    + [([4, 4], [1, 1, 1], 2), (None, 1, 2), ([[4], [4, 5]], 1, 2), (4, -1, 2), (4, 1, 0)],
)
def test_m7_pass_at_k_takes_whole_numbers(n, c, k):
    with pytest.raises(ValueError) as error:
        vpo.pass_at_k(n, c, k)
    attacks.check_error(error.value)
    assert vpo.pass_at_k(4, 1, 2.0) == 0.5
    assert vpo.pass_at_k([4, 4], 1, [1, 2]).tolist() == [0.25, 0.5]


@pytest.mark.parametrize("value", [*attacks.NASTY, ["vpo"], {"vpo"}, np.array(["vpo", "grpo"])])
def test_m7_names_of_methods_are_words_of_a_list(value):
    for call in (
        lambda: vpo.advantages(value, np.ones((1, 2, 1, 1))),
        lambda: vpo.rollout_scores(value, np.ones((1, 2, 1, 1))),
        lambda: vpo.sample_weights(2, 2, rng=np.random.default_rng(0), method=value),
    ):
        with pytest.raises(ValueError, match="method = ") as error:
            call()
        attacks.check_error(error.value)


@pytest.mark.parametrize(
    "value", [10**400, -(10**400), 10**5000, math.nan, 2**63, "9" * 5000], ids=shown
)
@pytest.mark.parametrize("kind", [int, float])
def test_m7_numbers_of_400_digits_are_no_settings(kind, value):
    option = Option("x", kind, 1, "")
    with pytest.raises(ValueError, match="x = ") as error:
        option.check(value)
    attacks.check_error(error.value)
    assert option.check(2**63 - 1) == kind(2**63 - 1)


@pytest.mark.parametrize("text", ["", "x" * 5000, "9" * 5000, "1\n2", "\x00", "\ud800", "½", None])
@pytest.mark.parametrize("kind", [int, float, bool])
def test_m7_the_text_of_a_flag_is_read_or_refused(kind, text):
    with pytest.raises(ValueError, match=r"x.y") as error:
        Option("x_y", kind, 1, "").check(Option("x_y", kind, 1, "").read(text))
    attacks.check_error(error.value)


@pytest.mark.parametrize("text", ["a\0b", "\ud800", 5, b"a", ["a"]])
def test_m7_a_text_can_be_written_to_a_file(text):
    with pytest.raises(ValueError, match="x = ") as error:
        Option("x", str, "", "").check(text)
    attacks.check_error(error.value)


def test_a_file_option_reads_a_text_of_a_million_characters(tmp_path):
    option, path = Option("x", str, None, "", file=True), tmp_path / "x.txt"
    path.write_text("\ufeffS . E\r\n", encoding="utf-8", newline="")
    assert option.read(str(path)) == "S . E\n"
    path.write_text("x" * 2**20)
    assert len(option.read(str(path))) == 2**20
    for content in (b"x" * (2**20 + 1), b"a\0b", b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"--x .*cannot be read as text") as error:
            option.read(str(path))
        attacks.check_error(error.value)
    for name in (str(tmp_path), str(tmp_path / "none"), "a\0b", "\ud800", "x" * 5000, ""):
        with pytest.raises(ValueError, match=r"--x .*cannot be read as text") as error:
            option.read(name)
        attacks.check_error(error.value)


def test_low_a_maze_text_may_begin_with_a_byte_order_mark():
    assert Maze.from_text("\ufeffS . E") == Maze.from_text("S . E")
    with pytest.raises(ValueError, match="unknown symbol"):
        Maze.from_text("S \ufeff E")


def test_low_a_dotless_i_is_no_move():
    task = task_class("maze")(maze="S . E")
    maze = task.instance(0)
    assert task.read(maze, "right Right") == "RR"
    assert task.read(maze, "r\u0131ght right") is None


@pytest.mark.parametrize("method", vpo.METHODS)
@pytest.mark.parametrize("shape", [(0, 4), (2, 0)])
def test_no_prompts_and_no_rollouts_are_refused(method, shape):
    """Most methods spoke of a zero-size array, or of a shape (0, newaxis, 2)."""
    drawn = vpo.METHODS[method].weights
    R = np.zeros((*shape, 1 if vpo.METHODS[method].single_answer else 3, 2))
    credit = {} if drawn == "none" else {"weights": np.zeros((shape[0], 1, 2))}
    with pytest.raises(
        ValueError, match=r"^R has shape .*: expected \(P, G, m, d\), none of them 0"
    ):
        vpo.advantages(method, R, **credit)


def test_no_sets_have_no_rewards_and_no_winners():
    for W in (np.ones((5, 2)), np.ones((0, 5, 2))):
        assert vpo.set_reward(np.zeros((0, 4, 3, 2)), W).shape == (0, 4)
        assert vpo.winners(np.zeros((0, 4, 3, 2)), W).shape == (0, 4, 5)
