"""Tree search finds what enumeration finds, spends what it says, and draws as plain sampling."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from vpo_lite import exact_set_reward, load_policy
from vpo_lite.policy.sampling import cache_name
from vpo_lite.search import tree
from vpo_lite.search.found import Spent
from vpo_lite.search.tree import beam, most_probable
from vpo_lite.tasks.base import TaskError
from vpo_lite.tasks.maze import MazeTask
from vpo_lite.tasks.program_rules import LONGEST, OPERATIONS, HiddenRules
from vpo_lite.training.rollouts import draw_uniforms, sample_answers


@pytest.fixture(scope="module")
def policy():
    return load_policy("pocket-programs", device="cpu")


@pytest.fixture(scope="module")
def task():
    return HiddenRules(branches=2)


@pytest.fixture(scope="module")
def instances(task):
    return [task.instance(seed) for seed in (0, 1, 2)]  # 4, 6 and 8 tests


@pytest.fixture(scope="module")
def enumerated(policy, task, instances):
    return [enumerate_programs(policy, task, x) for x in instances]


@torch.no_grad()
def enumerate_programs(policy, task, instance):
    """Log-probabilities of all programs {text: nats}, and of all prefixes of them, by the model's
    own forward pass over every sequence of three operations.
    """
    words = policy.tokenizer.get_vocab()
    operations = [words[name] for name in OPERATIONS]
    opening, closing = words["<program_1>"], words["</program_1>"]
    grid = np.stack(np.meshgrid(*[range(10)] * LONGEST, indexing="ij"), -1).reshape(-1, LONGEST)
    rows = torch.tensor([[opening, *(operations[i] for i in row)] for row in grid.tolist()])
    prompt = policy.encode(task.prompt(instance, 1, pocket=policy.pocket))
    policy.model.eval()
    begun = policy.model(torch.tensor([prompt]), use_cache=True)
    name = cache_name(policy.model)
    cache = getattr(begun, name)
    cache.batch_repeat_interleave(len(rows))
    rest = policy.model(rows, **{name: cache}).logits
    first = begun.logits[:, -1:].expand(len(rows), -1, -1)
    logp = torch.cat((first, rest), 1).double().log_softmax(-1)
    path = logp[:, :-1].gather(-1, rows[..., None])[..., 0].cumsum(-1)  # (1000, 1 + LONGEST)
    programs, prefixes = {}, {(): 0.0}
    for i, row in enumerate(rows.tolist()):
        for length in range(1, LONGEST + 2):
            prefixes[tuple(row[:length])] = path[i, length - 1].item()
            if length > 1:
                names = " ".join(list(OPERATIONS)[k] for k in grid[i, : length - 1])
                programs[names] = (path[i, length - 1] + logp[i, length, closing]).item()
    assert len(programs) == 1110
    return programs, prefixes


def after(its):
    """(n,): the tokens that were spent when each answer was found."""
    return np.array([one.spent.tokens for one in its.found], dtype=int)


def seen(its):
    """The rewards of all answers that were found."""
    return np.array([one.rewards for one in its.found])


def by_effect(task, instance, programs):
    """[(program, nats)] in order of probability: of each effect the most probable program."""
    ordered = sorted(programs.items(), key=lambda item: -item[1])
    best = {}
    for program, logprob in ordered:
        best.setdefault(task.same_effect(instance, program), (program, logprob))
    return list(best.values())


# --- the most probable answers --------------------------------------------------------------------


@pytest.mark.slow
def test_the_most_probable_answers_are_those_of_full_enumeration(
    policy, task, instances, enumerated
):
    found = most_probable(policy, task, instances, answers=25, max_tokens=300)
    for x, (programs, _), its in zip(instances, enumerated, found, strict=True):
        expected = by_effect(task, x, programs)[:25]
        assert its.answers == [program for program, _ in expected]
        np.testing.assert_allclose(its.logprobs, [nats for _, nats in expected], atol=1e-4)
        np.testing.assert_array_equal(its.rewards, task.score([x], [its.answers])[0])


@pytest.mark.slow
def test_no_token_is_wasted(policy, task, instances, enumerated):
    """Before an answer comes, every prefix that is more probable is read, and no other."""
    found = most_probable(policy, task, instances, answers=12, max_tokens=10**6)
    for (_, prefixes), its in zip(enumerated, found, strict=True):
        nats = np.array(list(prefixes.values()))
        expected = [int((nats > logprob).sum()) for logprob in its.logprobs]
        assert after(its).tolist() == expected
        assert its.spent.tokens == expected[-1]


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 4])
def test_a_smaller_budget_finds_the_beginning_and_is_spent_exactly(
    policy, task, instances, at_once
):
    whole = most_probable(
        policy, task, instances[:2], answers=10**6, max_tokens=19, at_once=at_once
    )
    assert [its.spent.tokens for its in whole] == [19] * 2
    for tokens in (4, 11):
        part = most_probable(
            policy, task, instances[:2], answers=99, max_tokens=tokens, at_once=at_once
        )
        for small, large in zip(part, whole, strict=True):
            assert small.spent.tokens == tokens
            assert small.answers == large.answers[: len(small.answers)]
            assert (after(small) <= tokens).all()
            if at_once == 1:
                assert len(small.answers) == (after(large) <= tokens).sum()


@pytest.mark.slow
def test_prefixes_read_together_find_the_same(policy, task, instances):
    one = most_probable(policy, task, instances, answers=6, max_tokens=50)
    eight = most_probable(policy, task, instances, answers=6, max_tokens=50, at_once=8)
    for a, b in zip(one, eight, strict=True):
        assert a.answers == b.answers
        assert (after(b) >= after(a)).all() and b.spent.tokens > a.spent.tokens


@pytest.mark.slow
def test_a_batch_finds_what_each_problem_finds_alone(policy, task, instances):
    together = most_probable(policy, task, instances, answers=4, max_tokens=12)
    for x, its in zip(instances, together, strict=True):
        (alone,) = most_probable(policy, task, [x], answers=4, max_tokens=12)
        assert alone.answers == its.answers and after(alone).tolist() == after(its).tolist()
        np.testing.assert_allclose(alone.logprobs, its.logprobs, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 3])
def test_only_what_the_budget_can_still_reach_is_kept(
    policy, task, instances, monkeypatch, at_once
):
    """Compared with whole vocabularies in order, also where many tokens are equally probable."""
    kept, read = [], type(policy).next_logprobs

    def rounded(self, *asked):
        return [(2 * rows).round() / 2 for rows in read(self, *asked)]

    def counted(logprobs, most):
        kept.append(shortened(logprobs, most))
        return kept[-1]

    def whole(logprobs, most):
        found = logprobs.sort(descending=True, stable=True)
        return found.indices.numpy(), found.values.numpy()

    shortened = tree._most_probable_tokens
    monkeypatch.setattr(type(policy), "next_logprobs", rounded)
    for tokens in (1, 2, 7, 24):
        how = dict(answers=99, max_tokens=tokens, at_once=at_once)
        monkeypatch.setattr(tree, "_most_probable_tokens", counted)
        few = most_probable(policy, task, instances[:1], **how)
        monkeypatch.setattr(tree, "_most_probable_tokens", whole)
        for one, other in zip(few, most_probable(policy, task, instances[:1], **how), strict=True):
            assert one.answers == other.answers and one.spent.tokens == other.spent.tokens
            np.testing.assert_array_equal(one.logprobs, other.logprobs)
            np.testing.assert_array_equal(after(one), after(other))
        assert all(len(ids) == len(logprobs) <= tokens for ids, logprobs in kept)
        kept.clear()
    assert few[0].spent.tokens == 24 and len(few[0].answers) > 2


class FourWords:
    """A policy to which the four words that it knows are equally probable, whatever came before."""

    words = ("<program_1>", "plus", "</program_1>", "<eos>")
    eos_ids, most_positions = frozenset({3}), None

    def __init__(self, pocket):
        self.pocket, self.tokenizer = pocket, self

    def get_vocab(self):
        return {word: i for i, word in enumerate(self.words)}

    def decode(self, ids):
        return " ".join(self.words[i] for i in ids)

    def sample(self, *_):
        raise AssertionError("this search draws nothing")

    def next_logprobs(self, prompts, beginnings):
        return [torch.full((len(rows), 4), 0.25).log() for rows in beginnings]


def test_a_tree_is_read_to_its_last_leaf_and_no_further(policy, task, instances):
    """Of four words two go on, so 2^L - 1 prefixes are shorter than the limit of L tokens.
    An answer of n operations is n + 2 tokens, each of probability 1/4.
    """
    limit = task.max_tokens(instances[0], 1, policy.pocket)
    how = dict(answers=99, max_tokens=1000)
    (found,) = most_probable(FourWords(policy.pocket), task, instances[:1], **how)
    assert found.spent.tokens == 2**limit - 1 == 63
    assert found.answers == ["plus", "plus plus", "plus plus plus"]
    np.testing.assert_allclose(found.logprobs, -np.array([3, 4, 5]) * np.log(4), rtol=1e-6)
    assert after(found).tolist() == [7, 15, 31], "after all prefixes of 2, 3 and 4 tokens"


def test_a_budget_that_is_too_small_finds_nothing(policy, task, instances):
    for x, its in zip(
        instances, most_probable(policy, task, instances, answers=3, max_tokens=2), strict=True
    ):
        assert its.answers == [] and its.spent.tokens == 2 and len(after(its)) == 0
        assert its.rewards.shape == (0, len(x.inputs))


def test_next_logprobs_are_those_of_the_model(policy, task, instances):
    prompts = [task.prompt(x, 1, pocket=policy.pocket) for x in instances]
    words = policy.tokenizer.get_vocab()
    a, b = words["<program_1>"], words["plus"]
    beginnings = [[[]], [[a, b], [], [a]], [[a]]]
    found = policy.next_logprobs(prompts, beginnings)
    whole_rows = replace(policy, checkpointing=True)  # does not share the prompts
    again = whole_rows.next_logprobs(prompts, beginnings)
    for prompt, group, rows, same in zip(prompts, beginnings, found, again, strict=True):
        assert rows.shape == (len(group), policy.embedded)
        torch.testing.assert_close(rows, same, atol=1e-4, rtol=0)
        for ids, row in zip(group, rows, strict=True):
            with torch.no_grad():
                logits = policy.model(torch.tensor([policy.encode(prompt) + ids])).logits[0, -1]
            torch.testing.assert_close(row, logits.log_softmax(-1), atol=1e-4, rtol=0)


# --- sets, answer by answer -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 3])
def test_a_beam_of_one_branch_is_plain_sampling(policy, task, instances, m):
    """Both get the same uniforms: those that the beam used, one stretch for each answer."""
    tokens = task.max_tokens(instances[0], 1, policy.pocket)
    found = beam(policy, task, instances, m=m, width=1, branches=1, seed=3)
    for x, its in zip(instances, found, strict=True):
        answers = its.texts[0].replace("> <", ">|<").split("|")
        assert len(answers) == m
        stretches, prefix = [], ""
        for j, answer in enumerate(answers):
            ((used,),) = draw_uniforms(1, [tokens], [(3, "beam", j, (task.key(x), prefix))])
            stretches.append(used[: len(answer.split())])
            prefix = f"{prefix} {answer}".strip()
        uniforms = np.concatenate([*stretches, [0.5]])[None, None]  # 0.5: the EOS
        (plain,) = sample_answers(policy, task, [x], m, uniforms).groups
        assert plain.texts == its.texts
        assert plain.tokens[0] == its.spent.tokens + 1
        np.testing.assert_array_equal(plain.rewards, its.rewards)
        np.testing.assert_array_equal(seen(its), its.rewards[0])
        assert its.set_rewards == exact_set_reward(plain.rewards)


def test_no_answer_of_a_beam_is_scored_twice_to_tell_repeats(policy):
    """A judge is slow, and may answer otherwise the second time."""
    scored = []

    class Judged(HiddenRules):
        repeats_by_reward = True

        def score(self, instances, answers):
            scored.extend(a for row in answers for a in row)
            return super().score(instances, answers)

        def same_effect(self, instance, answer):
            return tuple(self.score([instance], [[answer]])[0][0])

    task = Judged(branches=2)
    (found,) = beam(policy, task, [task.instance(0)], m=2, width=2, branches=3)
    rounds = 3 + 2 * 3 * 2  # of one answer each, then of two
    assert found.spent.candidates == 3 + 2 * 3 and len(scored) == rounds
    assert len({tuple(map(tuple, R)) for R in found.rewards}) == len(found.rewards)


def sampled_by(policy, monkeypatch):
    """A list that fills with (whole texts, tokens) of every call of ``Policy.sample``."""
    calls, sample = [], type(policy).sample

    def spy(self, prompts, *args, **kwargs):
        rollouts = sample(self, prompts, *args, **kwargs)
        prefixes = [prompts[p].prefix for p in rollouts.prompt_of.tolist()]
        texts = [f"{a} {b}".strip() for a, b in zip(prefixes, self.texts(rollouts), strict=True)]
        calls.append((texts, int(rollouts.mask.sum())))
        return rollouts

    monkeypatch.setattr(type(policy), "sample", spy)
    return calls


def set_reward(task, instance, text, m):
    answers = [a for a in task.parse(instance, text, m) if a is not None]
    worst = task.worst(instance)[None]
    return float(exact_set_reward(np.vstack([worst, *task.score([instance], [answers])])))


@pytest.mark.parametrize(("width", "branches"), [(1, 4), (3, 4)])
def test_the_best_prefixes_go_on_and_every_token_counts(
    policy, task, instances, monkeypatch, width, branches
):
    x, m = instances[1], 3
    calls = sampled_by(policy, monkeypatch)
    (found,) = beam(policy, task, [x], m=m, width=width, branches=branches)
    assert found.spent.tokens == sum(tokens for _, tokens in calls)
    assert len(calls) == m and len(calls[0][0]) == branches
    assert len(seen(found)) == sum(len(texts) for texts, _ in calls)  # all of them parse
    for j, (texts, _) in enumerate(calls):
        worth = {}  # by effects: the best that may go on
        for text in texts:
            assert text.endswith(f"</program_{j + 1}>")
            answers = task.parse(x, text, j + 1)
            effects = frozenset(task.same_effect(x, a) for a in answers)
            worth.setdefault(effects, (set_reward(task, x, text, j + 1), text))
        kept = sorted((value for value, _ in worth.values()), reverse=True)[:width]
        if j + 1 < m:
            went_on = {t.rpartition(f" <program_{j + 2}>")[0] for t in calls[j + 1][0]}
            assert went_on <= {text for _, text in worth.values()}  # of equal effects the first
            values = sorted((set_reward(task, x, t, j + 1) for t in went_on), reverse=True)
        else:
            values = found.set_rewards
        np.testing.assert_allclose(values, kept, atol=1e-9)


def test_of_equal_effects_the_first_stays(policy, task, instances, monkeypatch):
    def effects(text):
        return frozenset(task.same_effect(x, answer) for answer in task.parse(x, text, 2))

    x, first = instances[1], {}
    calls = sampled_by(policy, monkeypatch)
    (found,) = beam(policy, task, [x], m=2, width=9, branches=9)
    whole = {t: None for texts, _ in calls for t in texts if t.endswith("</program_2>")}
    for text in whole:
        first.setdefault(effects(text), text)
    assert len(first) < len(whole)
    assert len(set(map(effects, found.texts))) == len(found.texts) == 9
    assert found.texts == [first[effects(text)] for text in found.texts]
    assert (np.diff(found.set_rewards) <= 0).all()


def test_of_equal_set_rewards_the_first_goes_on():
    worth = np.repeat([1.0, 2.0], 20)  # as many as an unstable sort shuffles
    sets = [tree._Set(str(i), [], frozenset([i]), np.full((1, 2), w)) for i, w in enumerate(worth)]
    kept, values = tree._best(sets, 3, 1.0)
    assert [s.text for s in kept] == ["20", "21", "22"]
    np.testing.assert_allclose(values, 2)


@pytest.mark.slow
def test_a_batch_of_beams_is_one_by_one(policy, task, instances):
    how = dict(m=2, width=2, branches=3, seed=1)
    for x, its in zip(instances, beam(policy, task, instances, **how), strict=True):
        (alone,) = beam(policy, task, [x], **how)
        assert alone.texts == its.texts and alone.spent.tokens == its.spent.tokens
        np.testing.assert_array_equal(seen(alone), seen(its))


@pytest.mark.slow
def test_many_prefixes_are_read_in_pieces(policy, task, instances, monkeypatch):
    """Four rows at a time at most: what is found is the same."""
    sets = dict(m=2, width=3, branches=2, seed=1)
    likely = dict(answers=6, max_tokens=20, at_once=2)
    whole = beam(policy, task, instances, **sets), most_probable(policy, task, instances, **likely)
    calls, read, sizes = sampled_by(policy, monkeypatch), type(policy).next_logprobs, []

    def spy(self, prompts, beginnings):
        sizes.append(sum(map(len, beginnings)))
        return read(self, prompts, beginnings)

    monkeypatch.setattr(type(policy), "next_logprobs", spy)
    monkeypatch.setattr(tree, "ROWS", 4)
    cut = beam(policy, task, instances, **sets), most_probable(policy, task, instances, **likely)
    assert max(len(texts) for texts, _ in calls) == max(sizes) == 4
    for one, other in zip(whole[0], cut[0], strict=True):
        assert one.texts == other.texts and one.spent.tokens == other.spent.tokens
        np.testing.assert_array_equal(seen(one), seen(other))
    for one, other in zip(whole[1], cut[1], strict=True):
        assert one.answers == other.answers and one.spent.tokens == other.spent.tokens


@pytest.mark.slow
def test_the_seed_and_alpha_count(policy, task, instances):
    how = dict(m=2, width=2, branches=3)
    one, two = (beam(policy, task, instances, **how, seed=seed) for seed in (0, 1))
    assert [its.texts for its in one] != [its.texts for its in two]
    (narrow,) = beam(policy, task, instances[:1], **how, alpha=0.05)
    np.testing.assert_allclose(
        narrow.set_rewards, exact_set_reward(narrow.rewards, 0.05), atol=1e-12
    )


def test_completions_that_end_early_stay_as_they_are(policy, task, instances):
    """At this temperature many sets miss an answer, also behind one that is there."""
    found = beam(policy, task, instances, m=3, width=4, branches=4, temperature=2.0)
    ends = [text.endswith("</program_3>") for its in found for text in its.texts]
    assert not all(ends)
    for x, its in zip(instances, found, strict=True):
        assert None not in [one.answer for one in its.found]
        for text, rewards, value in zip(its.texts, its.rewards, its.set_rewards, strict=True):
            missing = [answer is None for answer in task.parse(x, text, 3)]
            assert (rewards[missing] == task.worst(x)).all()
            assert value == pytest.approx(set_reward(task, x, text, 3))


@pytest.mark.slow
def test_a_beam_names_every_answer_with_what_was_spent_until_then(
    policy, task, instances, monkeypatch
):
    """The texts and tokens of each call of the policy give both, rollout by rollout."""
    x, m, calls, sample = instances[1], 3, [], type(policy).sample

    def spy(self, prompts, *args, **kwargs):
        rollouts = sample(self, prompts, *args, **kwargs)
        prefixes = [prompts[p].prefix for p in rollouts.prompt_of.tolist()]
        texts = [f"{a} {b}".strip() for a, b in zip(prefixes, self.texts(rollouts), strict=True)]
        calls.append(list(zip(texts, rollouts.mask.sum(-1).tolist(), strict=True)))
        return rollouts

    monkeypatch.setattr(type(policy), "sample", spy)
    (found,) = beam(policy, task, [x], m=m, width=2, branches=4)
    expected, tokens = [], 0
    for j, rollouts in enumerate(calls):
        for text, cost in rollouts:
            tokens += cost
            *before, answer = task.parse(x, text, m)[: j + 1]
            expected.append((answer, Spent(j + 1, tokens, len(expected) + 1), before))
    assert [(a, spent, parents) for a, _, spent, parents in found.found] == expected
    assert found.spent == expected[-1][1] and len(expected) == 4 + 8 + 8
    np.testing.assert_array_equal(seen(found), task.score([x], [[a for a, *_ in expected]])[0])
    assert found.answers == [task.parse(x, text, m) for text in found.texts]


@pytest.mark.slow
def test_no_prefix_of_a_beam_goes_on_once_a_budget_is_spent(policy, task, instances):
    """Two prefixes of four branches: 4, 8, .. 20 answers. The others stay as they are."""
    x, m, width, branches = instances[1], 3, 2, 4
    how = dict(m=m, width=width, branches=branches)

    def cut(**budget):
        return beam(policy, task, [instances[0], x], **how, **budget)[1]

    whole = cut()
    ends = [one.spent for one in whole.found[branches - 1 :: branches]]
    assert [end.candidates for end in ends] == [4, 8, 12, 16, 20] and ends[-1] == whole.spent
    kept = [[]]  # the answers of the prefixes
    for i, end in enumerate(ends):
        its = cut(max_tokens=end.tokens)
        before = ends[i - 1] if i else Spent(0, 0, 0)
        for same in (before.tokens + 1, end.tokens):
            assert cut(max_tokens=same).spent == end
        for same in (before.candidates + 1, end.candidates):
            assert cut(max_candidates=same).spent == end
        grown = whole.found[: end.candidates]
        for one, same in zip(its.found, grown, strict=True):
            assert (one.answer, one.spent) == (same.answer, same.spent)
        last = [one for one in grown if one.spent.calls == end.calls]
        sets = [[*one.parents, one.answer] for one in last]
        sets += [s for s in kept if s not in [one.parents for one in last]]
        worth = {}  # by effects
        for answers in sets:
            R = np.vstack([task.worst(x)[None], *task.score([x], [answers])])
            effects = frozenset(task.same_effect(x, a) for a in answers)
            worth.setdefault(effects, float(exact_set_reward(R)))
        best = sorted(worth.values(), reverse=True)[:width]
        np.testing.assert_allclose(its.set_rewards, best, atol=1e-9)
        for answers, rewards in zip(its.answers, its.rewards, strict=True):
            there = [a for a in answers if a is not None]
            assert answers == there + [None] * (m - len(there)) and there in sets
            assert (rewards[len(there) :] == task.worst(x)).all()
        if i % width == 0:  # a step is done
            kept = [[a for a in answers if a is not None] for answers in its.answers]


def test_sampling_stops_at_the_token_that_is_named(policy, task, instances):
    uniforms = np.random.default_rng(0).random((3, 4, 16))
    for group in sample_answers(policy, task, instances, 3, uniforms, stop="</program_2>").groups:
        assert all(text.endswith("</program_2>") for text in group.texts)
        assert group.parsed[:, :2].all() and not group.parsed[:, 2].any()


# --- what is refused ------------------------------------------------------------------------------


class OtherTag(HiddenRules):
    tag = "plan"


MAZES = {"task": MazeTask(), "instances": [MazeTask().instance(1000)]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": 0}, "answers = 0: expected a whole number of at least 1"),
        ({"max_tokens": 0}, "max_tokens = 0: expected"),
        ({"at_once": 1.5}, "at_once = 1.5: expected"),
        ({"policy": "pocket-6x6"}, "policy = 'pocket-6x6': expected a policy"),
        ({"task": "maze"}, "task = 'maze': expected a Task object"),
        (MAZES, "this policy was made for task 'programs', not for 'maze'"),
        ({"instances": 3}, "instances = 3: expected a list of problems"),
        ({"instances": HiddenRules().instance(1)}, "problems; .x. for one problem x"),  # a tuple
        ({"instances": []}, r"^instances = \[\]: give at least one problem$"),
        ({"instances": [3]}, r"^instances\[0\] = 3: expected a problem; give task.instance\(3\)$"),
    ],
)
def test_impossible_searches_are_refused(policy, task, instances, change, message):
    with pytest.raises(ValueError, match=message):
        given = {"policy": policy, "task": task, "instances": instances}
        most_probable(**(given | {"answers": 1, "max_tokens": 1} | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"m": 6}, "this policy writes 1 to 5 answers"),
        ({"width": 0}, "width = 0: expected"),
        ({"branches": True}, "branches = True: expected"),
        ({"max_tokens": 0}, "max_tokens = 0: expected a whole number of at least 1"),
        ({"max_candidates": 0.5}, "max_candidates = 0.5: expected a whole number"),
        ({"alpha": 0}, "alpha"),
        ({"task": "maze"}, "task = 'maze': expected a Task object"),
        ({"task": OtherTag()}, "closing tag '</plan_1>' is not a single token of this policy"),
        ({"instances": []}, r"^instances = \[\]: give at least one problem$"),
        ({"instances": [3]}, r"^instances\[0\] = 3: expected a problem; give task.instance\(3\)$"),
        ({"seed": -1}, "^seed = -1: must be a whole number, 0 or more$"),
        ({"seed": None}, "^seed = None: must be a whole number, 0 or more$"),
    ],
)
def test_impossible_beams_are_refused(policy, task, instances, change, message):
    how = {"task": task, "instances": instances, "m": 2, "width": 1, "branches": 1} | change
    with pytest.raises(ValueError, match=message):
        beam(policy, **how)


def test_a_model_of_few_positions_is_refused_before_anything_is_read(
    policy, task, instances, monkeypatch
):
    """A prompt and its answers fit with 5 tokens an answer, and not with 6."""
    asked = max(len(policy.encode(task.prompt(x, 2, pocket=policy.pocket))) for x in instances)
    one = max(len(policy.encode(task.prompt(x, 1, pocket=policy.pocket))) for x in instances)
    how = dict(m=2, width=1, branches=1)
    monkeypatch.setattr(type(policy), "most_positions", asked + 10)
    assert len(beam(policy, task, instances, max_new_tokens=5, **how)) == 3
    monkeypatch.setattr(type(policy), "most_positions", one + 5)
    found = most_probable(policy, task, instances, answers=1, max_tokens=20, max_new_tokens=5)
    assert all(len(x.answers) == 1 for x in found)
    read = []
    for name in ("sample", "next_logprobs"):
        monkeypatch.setattr(type(policy), name, lambda *_, **__: read.append(1))
    monkeypatch.setattr(type(policy), "most_positions", asked + 11)
    with pytest.raises(TaskError, match=r"and 12 new ones need more .* lower max_new_tokens"):
        beam(policy, task, instances, max_new_tokens=6, **how)
    monkeypatch.setattr(type(policy), "most_positions", one + 5)
    with pytest.raises(TaskError, match=r"and 6 new ones need more .* lower max_new_tokens"):
        most_probable(policy, task, instances, answers=1, max_tokens=20, max_new_tokens=6)
    with pytest.raises(ValueError, match="max_new_tokens = 0: "):
        beam(policy, task, instances, max_new_tokens=0, **how)
    assert not read


def test_a_limit_of_tokens_leaves_out_longer_completions(policy, task, instances):
    """With 2 tokens there is one word and its closing tag: the answers of one operation."""
    how = dict(answers=30, max_tokens=200, max_new_tokens=3)
    for found in most_probable(policy, task, instances, **how):
        assert found.answers and {len(a.split()) for a in found.answers} <= {1}
