"""Whole runs on the second device end where the CPU's end, to rounding: nothing mixes the devices.

And Python waits for the device a fixed number of times, whatever the sizes.
"""

import functools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_models import byte_tokenizer, model_folder
from transformers import GPT2LMHeadModel, MistralForCausalLM

import vpo_lite as vpo
from vpo_lite.policy import sampling
from vpo_lite.policy.decoder import DecoderView
from vpo_lite.policy.loading import load_policy
from vpo_lite.search.evolution import evolve
from vpo_lite.search.tree import beam, most_probable
from vpo_lite.tasks import task_class
from vpo_lite.training.learner import Learner
from vpo_lite.training.run import Run
from vpo_lite.training.step import train_step

# --- the device itself ----------------------------------------------------------------------------

MIXED = {
    "sum": lambda there, here: there + here,
    "linear": lambda there, here: F.linear(there, here),
    "concatenation": lambda there, here: torch.cat((there, here)),
    "in place": lambda there, here: here.add_(there),
    "rows of a CPU tensor": lambda there, here: here[there.long()],
    "values put in": lambda there, here: there.index_put_((here.long(),), here),
    "selection": lambda there, here: there.index_select(0, here[0].long()),
}


@pytest.mark.parametrize("mix", MIXED.values(), ids=MIXED)
def test_what_mixes_the_devices_fails(mix, device, on_twin):
    with pytest.raises(RuntimeError, match="same device"):
        mix(torch.ones(2, 2, device=device), torch.ones(2, 2))


def test_an_array_needs_a_copy(device, on_twin):
    for read in (np.asarray, torch.Tensor.numpy):
        with pytest.raises((TypeError, RuntimeError)):
            read(torch.ones(2, device=device))


def test_what_cuda_allows_is_allowed(device, on_twin):
    x = torch.arange(4.0, device=device)
    assert (x * 2 + torch.tensor(1.0))[torch.tensor([1, 3])].cpu().tolist() == [3, 7]
    assert on_twin.copies == 1 and on_twin.reads == 0


def test_reads_and_copies_are_counted(device, on_twin):
    x = torch.tensor([0.0, 2.0, 3.0]).to(device)
    assert (on_twin.reads, on_twin.copies) == (0, 1)
    assert x.sum().item() == 5 and bool(x.any()) and on_twin.reads == 2
    assert x[x > 1].shape == (2,) and on_twin.reads == 3
    assert len(x.nonzero()) == 2 and on_twin.reads == 4
    assert x.tolist() == [0, 2, 3] and on_twin.copies == 2
    assert on_twin.dtypes == {torch.float32, torch.bool, torch.int64}


def test_gradients_are_there_and_right(device, on_twin):
    x = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
    (x**3).sum().backward()
    assert x.grad.device == device and x.grad.tolist() == [3, 12]


# --- training -------------------------------------------------------------------------------------

CHANGES = [  # static: the sampler as a CUDA graph records it
    dict(static=True),
]
MORE_CHANGES = [
    dict(static=False, gradient_checkpointing=True, temperature=0.9),
    dict(static=True, K="inf", micro_batch=3, epochs=2, entropy=0.1, kl=0.1),
    dict(static=True, method="vpo_recombined"),
    dict(static=False, method="goal_conditioned", kl=0.1),
    dict(static=True, task="programs", model="pocket-programs"),
]


def demo(device, **changes) -> vpo.TrainConfig:
    sizes = dict(steps=2, prompts=2, group_size=4, m=2, threads=1)
    one = {} if "task" in changes else dict(maze_seed=1000)
    return vpo.TrainConfig.preset("demo", device=device, **sizes | one | changes)


def told(numbers: dict) -> dict:
    """Figures by flat names, without those of the clock and of the machine."""
    flat = {}
    for name, value in numbers.items():
        if isinstance(value, list):
            value = dict(enumerate(value))
        if isinstance(value, dict):
            flat |= {f"{name}.{k}": v for k, v in told(value).items()}
        elif not (
            "seconds" in str(name)
            or name in ("device", "rollout_share", "scoring_share", "sampler_gap")
        ):
            flat[name] = value
    return flat


def same(here: dict, there: dict) -> bool:
    """Numbers to rounding, all else exactly."""
    here, there = told(here), told(there)
    numbers = [k for k, v in here.items() if isinstance(v, float)]
    near = [there.pop(k) for k in numbers] == pytest.approx(
        [here.pop(k) for k in numbers], rel=1e-4, abs=1e-5
    )
    return near and here == there


def sample_as(static: bool, monkeypatch) -> None:
    init = functools.partialmethod(DecoderView.__init__, static=static)
    monkeypatch.setattr(DecoderView, "__init__", init)


@pytest.mark.parametrize(
    "changes",
    [*CHANGES, *(pytest.param(c, marks=pytest.mark.long) for c in MORE_CHANGES)],
    ids=str,
)
def test_training_there_is_training_here(changes, on_twin, monkeypatch):
    changes = dict(changes)
    sample_as(changes.pop("static"), monkeypatch)
    runs = []
    for name in ("cpu", "twin"):
        learner = Learner(demo(name, **changes))
        assert {p.device.type for p in learner.policy.model.parameters()} == {name}
        before = torch.cat([p.detach().cpu().flatten() for p in learner.parameters])
        records = [train_step(learner, demo(name, **changes), step) for step in range(2)]
        after = torch.cat([p.detach().cpu().flatten() for p in learner.parameters])
        runs.append((records, after - before))
    (here, moved), (there, moved_there) = runs
    assert all(r.gradient_norm > 0 for r in here)
    for a, b in zip(here, there, strict=True):
        assert [g.texts for g in a.groups] == [g.texts for g in b.groups]
        assert same(a.to_json(), b.to_json())
        assert b.sampler_gap < 1e-5
    assert moved.norm() > 0 and (moved - moved_there).norm() < 0.02 * moved.norm()


@pytest.mark.parametrize(
    "kind", [GPT2LMHeadModel, pytest.param(MistralForCausalLM, marks=pytest.mark.long)]
)
def test_models_that_sample_by_their_own_pass(kind, on_twin, tmp_path):
    """Mistral's cache has windows, GPT-2's positions are a table."""
    more = {} if kind is MistralForCausalLM else dict(n_positions=1024)
    folder = model_folder(
        tmp_path / "model", byte_tokenizer(chat=True), 32, 48, 2, 4, 2, kind=kind, **more
    )
    assert not DecoderView.knows(load_policy(str(folder), device="cpu").model)
    how = dict(model=str(folder), max_new_tokens=12, task="hops", kl=0.1)
    here, there = (
        train_step(Learner(demo(name, **how)), demo(name, **how), 0) for name in ("cpu", "twin")
    )
    assert [g.texts for g in here.groups] == [g.texts for g in there.groups]
    assert same(here.to_json(), there.to_json())


def test_a_run_is_stored_resumed_and_measured_there(on_twin, tmp_path):
    """The state goes to the CPU and back: the resumed run is the uninterrupted one, bit for bit."""
    adapters, summaries = {}, {}
    for name, device, stops in (("cpu", "cpu", 0), ("whole", "twin", 0), ("stopped", "twin", 1)):
        run = Run.begin(demo(device, eval_answers=6), tmp_path / name)
        run.start()
        steps = run.steps()
        for _ in range(stops):
            next(steps)
        if stops:
            run.close()
            run = Run.resume(tmp_path / name)
            steps = run.steps()
        assert [record.step for record in steps][-1] == 2
        summaries[name] = run.finish()
        run.close()
        (file,) = (tmp_path / name / "adapter").glob("*.safetensors")
        adapters[name] = file.read_bytes()
    assert same(summaries["cpu"], summaries["whole"])
    assert adapters["whole"] == adapters["stopped"] and told(summaries["whole"]) == told(
        summaries["stopped"]
    )


@pytest.mark.long
def test_searches_find_there_what_they_find_here(on_twin):
    task, found = task_class("programs")(), []
    x = task.instance(task.seeds["held_out"][0])
    for name in ("cpu", "twin"):
        policy = load_policy("pocket-programs", device=name)
        grown = evolve(policy, task, [x], m=3, calls=3, seed=0)[0]
        beams = beam(policy, task, [x], m=2, width=2, branches=2)[0]
        likely = most_probable(policy, task, [x], answers=3, max_tokens=60)[0]
        found.append((grown.tokens, grown.best, grown.answer, beams.texts, likely.answers))
    assert found[0] == found[1]


# --- waiting --------------------------------------------------------------------------------------


def waits(on_twin, **changes) -> tuple[int, int]:
    """Reads and copies of a whole step, with the sampler as on a GPU."""
    learner, config = Learner(demo("twin", **changes)), demo("twin", **changes)
    before = on_twin.reads, on_twin.copies
    train_step(learner, config, 0)
    return on_twin.reads - before[0], on_twin.copies - before[1]


def test_a_step_waits_as_often_whatever_its_size(on_twin, monkeypatch):
    monkeypatch.setattr(sampling, "LOOK_EVERY", {"twin": 10**6})
    sample_as(True, monkeypatch)
    small, large = waits(on_twin), waits(on_twin, prompts=4, group_size=8, m=5)
    assert small == large
    assert small[0] <= 7  # what a step waits for: ends, lengths, figures
