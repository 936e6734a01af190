"""How a pocket policy for plans of calls is made: what it is shown, and what is measured of it."""

import itertools

import numpy as np
import pytest

import vpo_lite as vpo
from vpo_lite.pocket.calls import CallsRecipe, demonstrate, spoilt
from vpo_lite.policy.loading import load_policy
from vpo_lite.tasks.call_plans import CallPlans, Part, front_of
from vpo_lite.training.answers import read_answers
from vpo_lite.training.rollouts import sample_answers

TASK = CallPlans()
HAND = (
    Part("hotel", ("nights=4", "room=b"), ("hotel_400", "hotel_040", "hotel_004")),
    Part("taxi", ("pet=no",), ("taxi_400", "taxi_040", "taxi_003", "taxi_222")),
)


def test_a_prompt_with_its_answers_always_fits():
    """Two parts of 3 arguments and 4 tools, weights, 5 plans, <bos> and <eos>."""
    arguments = (("nights=9", "room=j", "breakfast=yes"), ("seats=9", "zone=j", "pet=yes"))
    request = tuple(
        Part(i, given, tuple(f"{i}_{p}" for p in ("300", "030", "003", "222")))
        for i, given in zip(("hotel", "taxi"), arguments, strict=True)
    )
    prompt = TASK.prompt(request, 5, weights=np.full(4, 0.25), pocket=CallsRecipe().pocket())
    plan = " ; ".join(TASK.call(part, 3) for part in request)
    answer = TASK.write(None, [plan] * 5).split()
    assert {*prompt.symbols.split(), *answer} <= {*CallsRecipe().vocabulary()}
    assert len(answer) + 1 == TASK.max_tokens(request, 5, {})
    assert 2 + len(prompt.symbols.split()) + len(answer) <= CallsRecipe.longest


@pytest.mark.slow
def test_a_demonstration_answers_its_prompt_and_a_batch_has_one_m():
    recipe = CallsRecipe(first_updates=8, batch=3)
    served = []
    for i in range(80):
        request = TASK.instance(1_000_000 + i)
        prompt, text = recipe.demonstration(i)
        m = int(prompt.symbols[2])
        assert m == 1 + i // 3 % (2 if i < 24 else 5) and TASK.key(request) in prompt.symbols
        plans = TASK.parse(request, text, m)
        assert None not in plans and TASK.parse(request, text, m + 1)[m] is None
        R = TASK.score([request], [plans])[0]
        if i < 24:  # of the first 8 updates: different plans of the front
            effects = {TASK.same_effect(request, plan) for plan in plans}
            assert TASK.solved(request, R).all() and len(effects) == m
        else:
            served += TASK.valid(request, R).tolist()
    assert 0.4 < np.mean(served) < 0.9


@pytest.mark.slow
def test_the_last_updates_show_half_as_many_wrong_calls():
    recipe = CallsRecipe(updates=30, batch=10, first_updates=0, last_updates=15)
    valid = []
    for i in range(300):
        request = TASK.instance(1_000_000 + i)
        plans = TASK.parse(request, recipe.demonstration(i)[1], 1 + i // 10 % 5)
        valid.append(TASK.valid(request, TASK.score([request], [plans])[0]))
    early, late = np.concatenate(valid[:150]), np.concatenate(valid[150:])
    assert early.mean() == pytest.approx(0.8**2, abs=0.06)
    assert late.mean() == pytest.approx(0.9**2, abs=0.06)


@pytest.mark.slow
def test_plans_are_shown_as_often_as_the_settings_say():
    rng = np.random.default_rng(0)
    sets = [demonstrate(HAND, 3, 0.15, 0.2, 0.5, rng) for _ in range(1_500)]
    R = np.concatenate(TASK.score([HAND] * len(sets), sets))
    assert TASK.valid(HAND, R).mean() == pytest.approx(0.8**2, abs=0.03)
    assert (R[:, 0] == 0).mean() == pytest.approx(0.04 * 15 / 16, abs=0.015)  # not both left out
    # of the 12 plans two are dominated: taxi_003 with hotel_400 and with hotel_040
    on_front = TASK.solved(HAND, R).sum() / TASK.valid(HAND, R).sum()
    assert on_front == pytest.approx(0.85, abs=0.03)
    in_turn = [demonstrate(HAND, 5, 0, 0, 1, rng) for _ in range(300)]
    assert all(len(set(plans)) == 5 for plans in in_turn)
    effects = {TASK.same_effect(HAND, plan) for plans in in_turn for plan in plans}
    dominated = {("hotel_400", "taxi_003"), ("hotel_040", "taxi_003")}
    assert effects == {*itertools.product(HAND[0].tools, HAND[1].tools)} - dominated
    assert min(len(set(demonstrate(HAND, 5, 0, 0, 0, rng))) for _ in range(100)) < 4


def test_a_spoilt_call_never_serves_and_each_kind_is_there():
    rng, kinds = np.random.default_rng(0), set()
    right = ["hotel_400", "nights=4", "room=b"]
    for _ in range(300):
        call = spoilt(right, HAND[1], rng)
        kinds.add((len(call), call[:1] == right[:1]))
        if call:
            assert TASK.same_effect(HAND, " ".join(call)) == (None, None)
            assert {*call} <= {*CallsRecipe().vocabulary()}
    assert kinds == {(0, False), (3, False), (2, True), (3, True)}
    assert all(demonstrate(HAND, 1, 0, 1, 0, rng)[0] for _ in range(100))  # never an empty plan


def test_the_figures_by_hand():
    """Two requests: a plan, the same in another order, a malformed one; and three plans."""
    hotels = [TASK.call(HAND[0], i) for i in range(3)]
    taxis = [TASK.call(HAND[1], i) for i in range(3)]
    pairs = [f"{h} ; {t}" for h, t in zip(hotels, taxis, strict=True)]
    rows = [pairs[0], f"{taxis[0]} ; {hotels[0]}", "jump"], [*pairs[:2], hotels[2]]
    groups = [read_answers(TASK, [HAND], [[TASK.write(HAND, row)]], 3)[0] for row in rows]
    front = front_of(HAND)
    first = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [0.5, 0, 0, 0.5]])
    assert CallsRecipe().figures(groups) == {
        "parse": 5 / 6,
        "valid": 4 / 6,
        "front": 4 / 6,
        "distinct": 1 / 2,
        "coverage": pytest.approx(
            (float(vpo.coverage(first[:1], front)) + float(vpo.coverage(first, front))) / 2
        ),
    }


def test_it_is_the_policy_that_a_run_takes_unless_told_otherwise():
    config = vpo.TrainConfig.preset("demo", task="calls", problem=3)
    assert config.base_model == "pocket-calls" and config.single
    assert config.task_options == {"problem": 3}
    with pytest.raises(ValueError, match="m = 6: this policy writes 1 to 5 answers"):
        vpo.TrainConfig.preset("demo", task="calls", m=6)
    with pytest.raises(ValueError, match="made for task 'maze', not for 'calls'"):
        vpo.TrainConfig.preset("demo", task="calls", model="pocket-6x6")
    with pytest.raises(ValueError, match="no shipped policy reads task 'calls'; name a model"):
        vpo.TrainConfig.preset("demo", task="calls", mode="faithful")


@pytest.mark.slow
def test_sampling_stops_at_the_last_plan_that_is_asked_for():
    policy = load_policy("pocket-calls", device="cpu")
    assert policy.pocket["stop"] == "</plan_{m}>"
    uniforms = np.random.default_rng(0).random((1, 16, 30))
    prompt = [TASK.prompt(TASK.instance(0), 2, pocket=policy.pocket)]
    whole, cut = policy.sample(prompt, uniforms), policy.sample(prompt, uniforms, stop="</plan_1>")
    texts = policy.texts(whole)
    assert all("<plan_2>" in text for text in texts)
    assert policy.texts(cut) == [text.partition("</plan_1>")[0] + "</plan_1>" for text in texts]
    assert not cut.truncated.any()
    last = cut.mask.sum(-1) - 1
    ends = policy.tokenizer.convert_tokens_to_ids("</plan_1>")
    assert (cut.tokens[range(16), last] == ends).all()  # the gradient reaches the tag that ends it
    policy.pocket["stop"] = "</plan_1>"
    (group,) = sample_answers(policy, TASK, [TASK.instance(0)], 2, uniforms).groups
    assert group.parsed[:, 0].any() and not group.parsed[:, 1].any()
    with pytest.raises(ValueError, match="stop = '</plan_99>': is no token"):
        policy.sample(prompt, uniforms, stop="</plan_99>")
