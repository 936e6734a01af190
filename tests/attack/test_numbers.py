"""Every public function of the core under attack: a right answer, or a ValueError of one line.

What is right is worked out here in exact fractions, by definitions and brute force, from whatever
was accepted. Warnings are errors, so a warning counts as a fault.
"""

import math
import random
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
from vpo_lite import metrics
from vpo_lite.objective import nondominated
from vpo_lite.options import Option
from vpo_lite.randomness import generator, integer

# ---- exact references ----


def fractions(x):
    """What was accepted, number by number. Fails on anything that is not real and unmasked."""
    assert not np.ma.is_masked(x)
    x = np.array(x, dtype=object)
    for value in x.flat:
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
        if method in ("vpo", "max_at_k", "gdpo", "maxrl") or spread < 10 * max(
            Fraction(2e-9), Fraction(1e-11) * size
        ):
            continue  # see the tests of tests/test_estimators.py
        unit = centred / spread
        std = math.sqrt(sum(unit**2) / len(unit)) + float(Fraction(float(eps)) / spread)
        rounding = float(Fraction(1e-13) * size / spread)
        assert found[p] == pytest.approx(unit.astype(float) / std, abs=1e-9 + rounding)


def right_best_at_k(found, scores, k):
    for s, value in zip(fractions(scores).reshape(-1, np.shape(scores)[-1]), np.ravel(found), strict=True):
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
    assert type(found) is type(value) and found == value
    if isinstance(value, float):
        assert 0.5 <= value <= 2e6


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
    sparse.eye_array(3),
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
