"""Recombination: the best set found so far takes the place of a rollout."""

import copy
import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import vpo_lite as vpo
from vpo_lite.policy.loading import load_policy
from vpo_lite.policy.sampling import Rollouts
from vpo_lite.tasks.wording import begun_in_thought, read_numbered
from vpo_lite.training import recombine as recombination
from vpo_lite.training import step as steps
from vpo_lite.training.answers import read_answers
from vpo_lite.training.learner import Learner
from vpo_lite.training.recombine import BestAnswer, recombine
from vpo_lite.training.rollouts import draw_uniforms, sample_answers, token_limits
from vpo_lite.training.run import Run

G, M = 6, 2
LIMIT = 200  # tokens of a rollout: more than any set of two routes takes


@pytest.fixture(scope="module")
def policy():
    return load_policy("pocket-6x6", device="cpu", seed=0)


@pytest.fixture(scope="module")
def task():
    return vpo.TrainConfig.preset("demo", maze_seed=1012).make_task()


@pytest.fixture(scope="module")
def sampled(policy, task):
    """Two groups of six rollouts of two answers."""
    instances = [task.instance(0)] * 2
    limits = token_limits(policy, task, M, instances)
    uniforms = draw_uniforms(G, limits, [(7, "test", 0, str(i)) for i in range(2)])
    return sample_answers(policy, task, instances, M, uniforms)


def trained_on(groups):
    return [group.for_training(np.zeros(4)) for group in groups]


def rows_of(sampled, p):
    return sampled.rollouts.rows(slice(p * G, (p + 1) * G))


def recombined(*given):
    """Rewards, rollouts, and for each prompt the index of the rollout that gave way, or None."""
    *given, limit = given
    R, rollouts, gave_way = recombine(*given, [limit] * len(given[2]))
    assert gave_way.shape == (len(R), len(R[0])) and (gave_way.sum(axis=1) <= 1).all()
    return R, rollouts, [int(row.argmax()) if row.any() else None for row in gave_way]


def worth(R, W):
    """(1/K) sum_j max_i w_j . r_i, written out."""
    return float((W @ np.transpose(R)).max(axis=1).mean())


@pytest.mark.slow
def test_the_best_set_that_two_groups_make_replaces_the_rollout_nearest_to_the_mean(
    policy, task, sampled
):
    weights = [np.random.default_rng(i).dirichlet(np.ones(4), 4096) for i in range(2)]
    found = {}
    R, _, places = recombined(
        policy, task, *sampled[:2], trained_on(sampled.groups), found, weights, 1.0, LIMIT
    )
    # Both groups are on one maze: what one found serves the other.
    valid = np.concatenate([group.rewards[group.valid] for group in sampled.groups])
    for p, (before, W) in enumerate(zip(sampled.groups, weights, strict=True)):
        scores = np.array([worth(rewards, W) for rewards in before.for_training(np.zeros(4))])
        assert places[p] == int(abs(scores - scores.mean()).argmin())
        best = max(worth(pair, W) for pair in itertools.combinations(valid, 2))
        assert worth(R[p][places[p]], W) == pytest.approx(best, abs=0.02), (
            "the set that is best for all weights is nearly the best for 4,096 of them"
        )
        assert worth(R[p][places[p]], W) >= max(scores)
        others = [g for g in range(G) if g != places[p]]
        assert (R[p][others] == before.for_training(np.zeros(4))[others]).all()
    (best,) = found.values()
    assert len(best) == M
    texts = [text for group in sampled.groups for text in group.texts]
    for answer in best:  # every answer of the set is one that somebody wrote, in this slot
        assert any(read_numbered(text, M, "route")[answer.slot] == answer.body for text in texts)


@pytest.mark.slow
def test_what_was_found_in_an_earlier_step_is_not_forgotten(policy, task, sampled):
    """The best set of all groups so far, though the later group wrote nothing of it."""
    first, second = sampled.groups
    found = {}
    recombined(
        policy, task, [first], rows_of(sampled, 0), trained_on([first]), found, None, 1.0, LIMIT
    )
    poor = np.where(second.valid[..., None], [1.0, 0, 0, 0.5], 0.0)  # dominated by any treasure
    second = replace(second, rewards=poor)
    rows, own = rows_of(sampled, 1), trained_on([second])
    R, rollouts, (place,) = recombined(policy, task, [second], rows, own, found, None, 1.0, LIMIT)
    pairs = itertools.combinations(first.rewards[first.valid], 2)
    best = max(vpo.exact_set_reward(pair) for pair in pairs)
    assert vpo.exact_set_reward(R[0][place]) == pytest.approx(best, abs=1e-12)
    answers = task.parse(second.instance, policy.texts(rollouts)[place], M)
    (scored,) = task.score([second.instance], [answers])
    assert (scored == R[0][place]).all(), "the text of the set earns what it is said to earn"


@pytest.mark.slow
def test_the_set_kept_of_a_problem_never_gets_worse_and_holds_m_answers(monkeypatch):
    seen, remember = [], recombination._remember

    def spied(task, group, answers, found, alpha):
        remember(task, group, answers, found, alpha)
        kept = found[task.key(group.instance)]
        seen.append((len(kept), float(vpo.exact_set_reward([a.rewards for a in kept], alpha))))

    monkeypatch.setattr(recombination, "_remember", spied)
    how = dict(maze_seed=1012, m=2, steps=3, prompts=2, group_size=8, threads=1)
    list(vpo.train(vpo.TrainConfig.preset("demo", method="vpo_recombined", **how)))
    sizes, values = zip(*seen, strict=True)
    assert set(sizes) == {2} and list(values) == sorted(values) and values[-1] > values[0]


@pytest.mark.slow
def test_a_resumed_run_knows_what_was_found(tmp_path):
    """Bit-equal to the whole run, and different without the sets that stand in the state."""

    def losses(walk):
        return [record.loss for record in walk]

    config = vpo.TrainConfig.preset(
        *("demo",),
        **dict(method="vpo_recombined", maze_seed=1012, m=2, steps=4, prompts=1, group_size=4),
        threads=1,
    )
    whole = losses(vpo.train(config))
    run = Run.begin(config, tmp_path / "run")
    walk = run.steps()
    begun = losses(itertools.islice(walk, 2))
    kept = run.learner.found
    run.close()
    again = Run.resume(tmp_path / "run")
    assert again.learner.found == kept and kept
    rest = [record.loss for record in again.steps()]
    again.close()
    assert begun + rest == whole


def test_the_tokens_are_those_of_the_text_and_nobody_sampled_them(policy, task, sampled):
    _, rollouts, places = recombined(
        policy, task, *sampled[:2], trained_on(sampled.groups), {}, None, 1.0, LIMIT
    )
    texts = policy.texts(rollouts)
    rows = [p * G + place for p, place in enumerate(places)]
    for row in range(2 * G):
        group = sampled.groups[row // G]
        nobody = torch.isnan(rollouts.logprobs[row][rollouts.mask[row]])
        assert nobody.all() if row in rows else not nobody.any()
        assert (texts[row] != group.texts[row % G]) == (row in rows)
        end = rollouts.tokens[row][rollouts.mask[row]][-1].item()
        assert end == policy.tokenizer.eos_token_id or rollouts.truncated[row]
    same = [row for row in range(2 * G) if row not in rows]
    width = sampled.rollouts.tokens.shape[1]
    assert (rollouts.tokens[same, :width] == sampled.rollouts.tokens[same]).all()
    assert sampled.rollouts.logprobs.isfinite().all(), "what was sampled is left as it was"


def test_a_group_is_left_alone_where_nothing_valid_was_found(policy, task, sampled):
    bad = [replace(g, valid=np.zeros_like(g.valid)) for g in sampled.groups]
    R, rollouts, places = recombined(
        policy, task, bad, sampled.rollouts, trained_on(bad), {}, None, 1.0, LIMIT
    )
    assert places == [None, None]
    for mine, group in zip(R, sampled.groups, strict=True):
        assert (mine == group.for_training(np.zeros(4))).all()
    assert (rollouts.tokens == sampled.rollouts.tokens).all()


def test_a_best_set_of_one_answer_is_filled_up_with_what_can_be_read(policy, task, sampled):
    """Where one answer is best under all weights, m answers are written all the same."""
    instance = task.instance(0)
    one = sampled.groups[0]
    texts = ["<route_1> a1 </route_1> <route_2> nonsense", *one.texts[1:]]
    text = next(t for t, ok in zip(one.texts, one.valid, strict=True) if ok.any())
    alike = read_answers(task, [instance], [[text] * (G - 1) + texts[:1]], M)
    alike = [replace(g, prompt=one.prompt) for g in alike]
    rows = rows_of(sampled, 0)
    _, rollouts, (place,) = recombined(
        policy, task, alike, rows, trained_on(alike), {}, None, 1.0, LIMIT
    )
    answers = task.parse(instance, policy.texts(rollouts)[place], M)
    assert None not in answers and len(set(answers)) == M


def test_a_short_set_is_filled_up_from_its_best_rollout_first_and_with_no_answer_twice():
    group = SimpleNamespace(parsed=np.ones((2, 3)), prompt=SimpleNamespace(prefix=""))
    written = {(0, 0): "a", (0, 2): "b", (1, 0): "top", (1, 1): "c", (1, 2): "c"}
    answers = {at: BestAnswer(body, at[1], (1.0,)) for at, body in written.items()}
    best, leader = [answers[1, 0]], 1
    filled = recombination._filled(group, answers, best, leader)
    assert [answer.body for answer in filled] == ["top", "a", "c"], "in the order of their slots"
    assert best == [answers[1, 0]], "what is kept for later steps is left as it was"
    del answers[0, 0], answers[0, 2]
    assert recombination._filled(group, answers, best, leader) == [], "two answers are no set of 3"


def test_the_rollout_of_the_highest_score_fills_up_a_set(policy, task, sampled):
    """One answer is valid: .4 in everything. Another rollout earns (1 + .9) / 4 = .475, so more."""
    first = sampled.groups[0]
    assert first.parsed[[0, 3], 0].all() and first.answers[0][0] != first.answers[3][0]
    rewards, valid = np.zeros_like(first.rewards), np.zeros_like(first.valid)
    rewards[0, 0], rewards[3, 0], valid[0, 0] = 0.4, (1, 0.9, 0, 0), True
    group = replace(first, rewards=rewards, valid=valid)
    given = rows_of(sampled, 0), [rewards], {}, None, 1.0, LIMIT
    R, _, (place,) = recombined(policy, task, [group], *given)
    assert place == 1, "a score of 0 is nearest to the mean of .146"
    assert R[0][1].tolist() == [[0.4] * 4, [1, 0.9, 0, 0]]


def test_a_group_with_a_better_rollout_is_left_alone(policy, task, sampled):
    """Under the first w the best set is worth nothing and the first rollout .6, else it is best."""
    first = sampled.groups[0]
    rewards = np.zeros_like(first.rewards)
    rewards[0, 0, 0], rewards[1:, 0, 1], rewards[1:, 1, 2] = 0.6, 1, 1
    group = replace(first, rewards=rewards, valid=np.ones_like(first.valid))
    given = [group], rows_of(sampled, 0), [rewards]
    for w, places in (([1.0, 0, 0, 0], [None]), ([0, 0.5, 0.5, 0], [1])):
        *_, found = recombined(policy, task, *given, {}, [np.array([w])], 1.0, LIMIT)
        assert found == places


@pytest.mark.slow
def test_weights_and_alpha_say_which_rollout_gives_way(policy, task, sampled):
    """By brute force: the best pair at this alpha, and scores under these weights."""
    first, rng, places = sampled.groups[0], np.random.default_rng(12), []
    rewards = rng.random(first.rewards.shape) * rng.integers(0, 2, first.rewards.shape)
    group = replace(first, rewards=rewards, valid=np.ones_like(first.valid))
    pairs = np.array(list(itertools.combinations(rewards[first.parsed], 2)))
    sharp = rng.dirichlet(np.full(4, 0.1), 64)
    for W, alpha in ((None, 1.0), (sharp, 1.0), (None, 0.05)):
        best = pairs[vpo.exact_set_reward(pairs, alpha).argmax()]
        scores, given = vpo.exact_set_reward(rewards, alpha), None
        if W is not None:
            scores, given = np.array([worth(vectors, W) for vectors in rewards]), [W]
        args = [group], rows_of(sampled, 0), [rewards], {}, given, alpha, LIMIT
        R, _, (place,) = recombined(policy, task, *args)
        assert place == int(abs(scores - scores.mean()).argmin())
        assert sorted(R[0][place].tolist()) == sorted(best.tolist())
        places.append(place)
    assert len(set(places)) == 3, "each setting names another one"


class Letters:
    """Each letter is a token, and a text begins with token 0 unless that is turned off."""

    def __init__(self, end):
        self.eos_token_id = end

    def __call__(self, text, add_special_tokens=True):
        return {"input_ids": [0] * add_special_tokens + [ord(letter) for letter in text]}


def test_a_recombined_text_ends_as_the_rollouts_of_its_group_do():
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]]).bool()
    cut, ended = torch.tensor([[5, 8, 6], [5, 6, 8]]), torch.tensor([[5, 6, 6], [5, 8, 9]])
    for tokens, pocket, end, last in (
        (ended, None, 7, [8]),
        (cut, None, 7, [7]),  # the 8 after a rollout, and inside one, is none that ended it
        (cut, None, None, [8]),
        (ended, {"stop": "b"}, 7, []),
        (ended, {"stop": "a"}, 7, [8]),  # here the text does not end with that word
    ):
        ways = dict(tokenizer=Letters(end), pocket=pocket, eos_ids={8, 9}, token_id=ord)
        rollouts = SimpleNamespace(tokens=tokens, mask=mask)
        found = recombination._token_ids(SimpleNamespace(**ways), rollouts, "ab", 2)
        assert found == [ord("a"), ord("b"), *last]


def test_a_recombined_row_may_be_longer_than_all_that_were_sampled():
    tokens = torch.tensor([[1, 2, 3], [4, 5, 9]])
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]]).bool()
    rollouts = Rollouts(*[None] * 3, tokens, mask, -0.5 * mask, torch.tensor([True, True]))
    found = recombination._with_rows(rollouts, {1: [6, 7, 8, 6, 7]}, pad_id=9)
    assert found.tokens.tolist() == [[1, 2, 3, 9, 9], [6, 7, 8, 6, 7]]
    assert found.mask.tolist() == [[True] * 3 + [False] * 2, [True] * 5]
    assert found.logprobs[0].tolist() == [-0.5] * 3 + [0, 0] and found.logprobs[1].isnan().all()
    assert found.truncated.tolist() == [True, False]
    shorter = recombination._with_rows(rollouts, {0: [6]}, pad_id=9)
    assert shorter.tokens.tolist() == [[6, 9, 9], [4, 5, 9]]
    assert shorter.mask[0].tolist() == [True, False, False]
    assert shorter.logprobs[0, 1:].tolist() == [0, 0] and shorter.logprobs[0, 0].isnan()
    assert rollouts.tokens is tokens and tokens[1].tolist() == [4, 5, 9]


def test_a_group_whose_texts_were_begun_for_it_is_left_alone(policy, task, sampled):
    group = sampled.groups[0]
    begun = replace(group, prompt=replace(group.prompt, prefix="<route_1>"))
    given = rows_of(sampled, 0), trained_on([group]), {}, None, 1.0, LIMIT
    assert recombined(policy, task, [group], *given)[2] != [None]
    assert recombined(policy, task, [begun], *given)[2] == [None]


@pytest.mark.slow
def test_the_record_shows_what_the_policy_wrote(monkeypatch):
    """Figures, texts and rewards are of the sampled rollouts; the one that gave way has advantage
    0, and the others are compared with the recombined set.
    """
    how = dict(maze_seed=1012, m=2, steps=1, prompts=2, group_size=8, threads=1)
    plain, ours = (
        next(vpo.train(vpo.TrainConfig.preset("demo", method=method, **how)))
        for method in ("vpo", "vpo_recombined")
    )
    assert ours.coverage == plain.coverage and ours.diversity == plain.diversity
    assert ours.sampler_gap == pytest.approx(plain.sampler_gap, abs=1e-6)
    for mine, theirs in zip(ours.groups, plain.groups, strict=True):
        assert mine.texts == theirs.texts and (mine.rewards == theirs.rewards).all()
        assert (mine.advantages == 0).sum() == 1 and not (theirs.advantages == 0).any()
        assert abs(theirs.advantages[mine.advantages == 0]) == abs(theirs.advantages).min()


@pytest.mark.slow
def test_a_set_for_a_policy_that_begins_in_thought_closes_it(policy, task, sampled, monkeypatch):
    """Without that the kit itself would not read it: it was taught to write what earns nothing."""
    asked = []

    def ids_of(policy, theirs, text, m):
        asked.append(text)
        return [0]

    monkeypatch.setattr(recombination, "_token_ids", ids_of)
    weights = [np.random.default_rng(i).dirichlet(np.ones(4), 64) for i in range(2)]
    for opens in (False, True):
        monkeypatch.setitem(policy.__dict__, "opens_thought", opens)
        given = (policy, task, *sampled[:2], trained_on(sampled.groups), {}, weights, 1.0)
        recombine(*given, [LIMIT] * 2)
    plain, thought = asked[0], asked[len(asked) // 2]
    assert thought == f"</think>\n\n{plain}"
    assert None not in read_numbered(begun_in_thought(thought), M, task.tag)


def test_the_kl_is_over_what_was_sampled():
    """Of a set that was put in, the policy may have thought nothing: k3 has no bound there."""
    learner = Learner(vpo.TrainConfig.preset("demo", prompts=1, group_size=4, m=2, kl=0.1))
    config, policy = learner.config, learner.policy
    task, x = learner.task, [learner.task.instance(0)]
    limits = token_limits(policy, task, 2, x)
    _, rollouts, _ = sample_answers(
        policy, task, x, 2, draw_uniforms(4, limits, [(0, "kl", 0, "a")])
    )
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.05, generator=torch.Generator().manual_seed(0))
    put_in = rollouts._replace(logprobs=rollouts.logprobs.clone())
    put_in.logprobs[1] = torch.nan
    gain = torch.zeros(4)
    weights = rollouts.mask / rollouts.mask.sum()
    found = []
    for some in (rollouts, put_in, rollouts.rows(slice(1, 2))):
        rows = weights if len(some.mask) == 4 else weights[1:2, : some.mask.shape[1]]
        part = steps._Part(some, gain[: len(some.mask)], rows)
        with policy.reference(), torch.no_grad():
            part.reference = policy.token_logprobs(some, config.temperature)[0]
        found.append(steps._add_gradient(policy, config, part)[1].item())
    whole, without, of_it = found
    assert without == pytest.approx(whole - of_it, rel=1e-3) and of_it > 1e-4


def test_the_gap_to_the_sampler_is_a_mean_over_what_it_sampled(monkeypatch):
    """The tokens of a recombined set have no sampler: a gap of 0.5 in all others is 0.5."""
    update = steps.update_policy

    def shifted(learner, config, rollouts, *rest):
        assert rollouts.logprobs.isnan().any(), "a set was recombined"
        return update(learner, config, rollouts._replace(logprobs=rollouts.logprobs + 0.5), *rest)

    monkeypatch.setattr(steps, "update_policy", shifted)
    how = dict(maze_seed=1012, m=2, steps=1, prompts=2, group_size=8, threads=1)
    record = next(vpo.train(vpo.TrainConfig.preset("demo", method="vpo_recombined", **how)))
    assert record.sampler_gap == pytest.approx(0.5, abs=1e-4)


@pytest.mark.slow
def test_one_step_makes_the_recombined_set_likelier(policy):
    """With one clear leader in a group, the update raises the log-probability of its tokens."""
    config = vpo.TrainConfig.preset(
        "demo", method="vpo_recombined", maze_seed=1012, m=2, prompts=1, threads=1
    )
    learner, seen = Learner(config), {}
    update = steps.update_policy

    def spied(learner, config, rollouts, advantages, *rest):
        row = int(torch.isnan(rollouts.logprobs).any(1).nonzero()[0, 0])
        seen.update(row=row, rollouts=rollouts, advantage=advantages[0, row])
        return update(learner, config, rollouts, advantages, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "update_policy", spied)
        steps.train_step(learner, config, 0)
    one = seen["rollouts"].rows(slice(seen["row"], seen["row"] + 1))
    with torch.no_grad():
        with learner.policy.reference():  # the adapter began as zero: this is the policy of before
            before = learner.policy.token_logprobs(one)[0][one.mask].sum()
        after = learner.policy.token_logprobs(one)[0][one.mask].sum()
    assert seen["advantage"] > 1 and after > before


def test_the_sets_of_the_latest_problems_are_kept(policy, task, sampled, monkeypatch):
    """Of two here. A problem that is met again is a late one. A step may have more problems."""
    monkeypatch.setattr(recombination, "MOST_PROBLEMS", 2)
    first, found = sampled.groups[0], {}

    def met(*names):
        monkeypatch.setattr(type(task), "key", lambda self, instance: instance)
        groups, rows = [replace(first, instance=name) for name in names], rows_of(sampled, 0)
        rows = rows.rows(torch.arange(G).repeat(len(names)))
        recombined(policy, task, groups, rows, trained_on(groups), found, None, 1.0, LIMIT)
        return list(found)

    assert met("a") == ["a"] and met("b") == ["a", "b"]
    assert met("a") == ["b", "a"] and met("c") == ["a", "c"]
    assert met("d", "e", "f", "e") == ["f", "e"]


def test_a_set_that_exceeds_the_token_limit_takes_no_place(policy, task, sampled):
    """At its own length it fits; with one token less the group stays as it is."""
    first = sampled.groups[0]
    given = [first], rows_of(sampled, 0), trained_on([first])
    _, rollouts, (place,) = recombined(policy, task, *given, {}, None, 1.0, LIMIT)
    length = int(rollouts.mask[place].sum())
    assert recombined(policy, task, *given, {}, None, 1.0, length)[2] == [place]
    found = {}
    R, rollouts, places = recombined(policy, task, *given, found, None, 1.0, length - 1)
    assert places == [None] and (R[0] == given[2][0]).all()
    assert torch.equal(rollouts.tokens, given[1].tokens) and found[task.key(first.instance)]


def test_each_group_has_a_token_limit_of_its_own(policy, task, sampled):
    """A set may fit where the problem is large, and not where it is small."""
    given = policy, task, *sampled[:2], trained_on(sampled.groups)
    _, rollouts, places = recombined(*given, {}, None, 1.0, LIMIT)
    lengths = [int(rollouts.mask[p * G + place].sum()) for p, place in enumerate(places)]
    for small in (0, 1):
        limits = [LIMIT, LIMIT]
        limits[small] = lengths[small] - 1
        *_, gave_way = recombine(*given, {}, None, 1.0, limits)
        assert [bool(row.any()) for row in gave_way] == [p != small for p in range(2)]


@pytest.mark.slow
def test_a_step_trains_no_row_beyond_its_limit(monkeypatch):
    """A short limit cuts rollouts; sets joined of several of them would be longer."""
    config = vpo.TrainConfig.preset(
        "demo", method="vpo_recombined", prompts=4, max_new_tokens=30, m=3, threads=1
    )
    learner, widths, update = Learner(config), [], steps.update_policy

    def spied(learner, config, rollouts, *rest):
        widths.append(rollouts.tokens.shape[1])
        return update(learner, config, rollouts, *rest)

    monkeypatch.setattr(steps, "update_policy", spied)
    for step in range(3):
        steps.train_step(learner, config, step)
    assert len(widths) == 3 and max(widths) <= 30


@pytest.mark.slow
@pytest.mark.parametrize("name", ["calls", "chains"])
def test_a_set_ends_as_rollouts_end(name, monkeypatch):
    """These policies stop after the last answer's closing tag, and sample no EOS after it."""
    how = dict(task=name, method="vpo_recombined", prompts=2, group_size=8, threads=1)
    config, seen = vpo.TrainConfig.preset("demo", **how), []
    learner = Learner(config)

    def spied(*given):
        seen.append(recombine(*given))
        return seen[-1]

    monkeypatch.setattr(steps, "recombine", spied)
    steps.train_step(learner, config, 0)
    _, rollouts, gave_way = seen[0]
    written = np.flatnonzero(gave_way).tolist()
    assert written
    for row in written:
        last = rollouts.tokens[row][rollouts.mask[row]][-1].item()
        tag = learner.policy.tokenizer.convert_ids_to_tokens(last)
        assert tag == f"</{learner.task.tag}_{config.m}>"


def test_of_several_ends_it_is_the_one_that_the_group_used(policy, task, sampled, monkeypatch):
    """As of a chat model, whose tokenizer names another EOS than the one that ends its turns."""
    eos, pad = policy.tokenizer.eos_token_id, policy.tokenizer.pad_token_id
    first, rows = sampled.groups[0], rows_of(sampled, 0)
    turns = rows._replace(tokens=rows.tokens.masked_fill(rows.tokens == eos, pad))
    monkeypatch.setattr(type(policy), "eos_ids", {eos, pad})
    given = trained_on([first]), {}, None, 1.0, LIMIT
    _, rollouts, (place,) = recombined(policy, task, [first], turns, *given)
    assert rollouts.tokens[place][rollouts.mask[place]][-1] == pad


@pytest.mark.parametrize("named", [True, False])
def test_where_no_rollout_ended_it_is_the_tokenizers_end_or_the_first(
    policy, task, sampled, monkeypatch, named
):
    eos, rows = policy.tokenizer.eos_token_id, rows_of(sampled, 0)
    other = int(rows.tokens[0, 0])
    cut = rows._replace(tokens=rows.tokens.masked_fill(rows.tokens == eos, other))
    ends = {eos, eos + 1000, eos + 2000}
    monkeypatch.setattr(type(policy), "eos_ids", ends)
    if not named:
        nameless = copy.deepcopy(policy.tokenizer)
        nameless.eos_token = None
        monkeypatch.setattr(policy, "tokenizer", nameless)
        ends.remove(eos)
    first = sampled.groups[0]
    given = [first], cut, trained_on([first])
    _, rollouts, (place,) = recombined(policy, task, *given, {}, None, 1.0, LIMIT)
    last = rollouts.tokens[place][rollouts.mask[place]][-1]
    assert last == (eos if named else eos + 1000)
