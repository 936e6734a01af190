"""What a GPU needs of the code, proved without one: nothing is read back while tokens are drawn, no
double precision where there is none, and a step that a CUDA graph can replay.

Torch's device "meta" stands for the GPU: its tensors have shapes and types, but no values. So
whatever Python wants to know of them is seen, and answered, by :class:`Watched`.
"""

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from small_models import config_of
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import (
    Gemma3ForCausalLM,
    LlamaForCausalLM,
    MistralForCausalLM,
    Qwen2ForCausalLM,
)

from vpo_lite import TrainConfig
from vpo_lite.policy import decoder, drawing, graphs, sampling
from vpo_lite.policy.decoder import DecoderView, compiler_missing
from vpo_lite.policy.graphs import replayed
from vpo_lite.policy.loading import choose_device
from vpo_lite.policy.policy import TokenScores
from vpo_lite.policy.sampling import HFForward, Rollouts, sample_tokens
from vpo_lite.training import step
from vpo_lite.training.step import update_policy

PROMPTS = [[5, 6, 7, 8, 9], [3, 4]]  # the second is padded
READ = torch.ops.aten._local_scalar_dense.default  # what .item(), bool() and int() call
COPY = torch.ops.aten._to_copy.default
META, CPU = torch.device("meta"), torch.device("cpu")


def small_model(kind=LlamaForCausalLM, device="cpu"):
    torch.manual_seed(0)
    base = kind(config_of(kind, 32, 48, 2, 4, 2, 37))
    lora = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    model = get_peft_model(base.to(device), lora)
    for p in model.parameters():
        if p.dim() > 1:
            torch.nn.init.normal_(p, std=0.2)
    return model.eval()


def tensors(*values):
    return [x for x in tree_leaves(values) if isinstance(x, torch.Tensor)]


class Watched(TorchDispatchMode):
    """Counts what a device would have to wait for, and answers where a number is read.

    - reads: numbers that Python reads
    - copies: kernels with tensors on both sides, such as that of .cpu()
    - dtypes: of all tensors that are made on the device

    answer: to every question for a truth value
    """

    def __init__(self, answer=True):
        super().__init__()
        self.answer = answer
        self.reads, self.copies, self.dtypes = 0, 0, set()

    def __torch_dispatch__(self, kernel, types, args=(), kwargs=None):
        if kernel is READ and args[0].device == META:
            self.reads += 1
            return {torch.bool: self.answer, torch.int64: 1}.get(args[0].dtype, 1.0)
        if kernel is COPY and args[0].device == META and kwargs.get("device") == CPU:
            self.copies += 1
            return torch.ones(args[0].shape, dtype=args[0].dtype)
        made = kernel(*args, **kwargs or {})
        self.copies += len({x.device for x in tensors(args, kwargs, made)}) > 1
        self.dtypes |= {x.dtype for x in tensors(made) if x.device == META}
        return made


def sampled(new_tokens, static=True) -> Watched:
    """What is seen while 2 x 3 rollouts are sampled."""
    model, uniforms = small_model(device=META), np.random.default_rng(0).random((2, 3, new_tokens))
    with Watched() as seen:
        view = DecoderView(model, static=static)
        sample_tokens(
            model, PROMPTS, uniforms, eos_ids={2, 3}, pad_id=0, temperature=0.9, forward=view
        )
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("static", [True, False])
def test_a_token_is_drawn_without_a_word_to_python(static):
    """Eight tokens more cost one more look whether all rows have ended, and nothing else."""
    short, long = (sampled(tokens, static) for tokens in (9, 17))
    assert short.reads == 2 + (not static)  # a look, the length, and whether prompts are padded
    assert long.reads - short.reads == 1
    assert long.copies == short.copies == 1  # the uniforms


@pytest.mark.slow
@pytest.mark.parametrize("padded", [pytest.param(False, marks=pytest.mark.long), True])
@pytest.mark.parametrize(
    "kind",
    [LlamaForCausalLM, MistralForCausalLM, pytest.param(Gemma3ForCausalLM, marks=pytest.mark.long)],
)
def test_the_models_own_forward_pass_waits_for_no_token(kind, padded, monkeypatch):
    """Whether prompts are padded is asked once. The last two kinds of model have windows."""
    monkeypatch.setattr(sampling, "LOOK_EVERY", {"meta": 100})  # a look would get the same answer
    model = small_model(kind, META)

    def seen(new_tokens):
        uniforms = np.random.default_rng(0).random((2, 3, new_tokens))
        with Watched(answer=not padded) as watched:
            sample_tokens(model, PROMPTS, uniforms, eos_ids={2}, pad_id=0, forward=HFForward(model))
        return watched

    short, long = seen(9), seen(17)
    assert long.reads == short.reads and long.copies == short.copies
    assert padded or short.reads == 2  # whether prompts are padded, and the length


@pytest.mark.slow
def test_where_there_is_no_double_precision_none_is_used(monkeypatch):
    assert torch.float64 in sampled(3).dtypes
    monkeypatch.setattr(drawing, "SINGLE", ("meta",))
    assert sampled(3).dtypes == {torch.float32, torch.int64, torch.bool}


def test_no_attention_on_a_gpu_is_cudnns():
    """Its gradients are NaN for some lengths of masked prompts, in bfloat16 on an H100."""
    assert not torch.backends.cuda.cudnn_sdp_enabled()


def test_an_apple_gpu_is_taken_when_it_is_named(monkeypatch):
    """Never by itself: nobody has run on one yet."""
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("mps").type == "mps" and choose_device("auto").type != "mps"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ValueError, match="'mps' cannot be used here"):
        choose_device("mps")


@pytest.mark.parametrize("missing", ["triton", "compiler", "Python.h"])
def test_what_torch_compile_lacks_on_a_gpu_is_named(missing, monkeypatch, tmp_path):
    """Triton was looked for, and nothing else. Without the other two the first step failed."""
    there = {"triton": object(), "compiler": "/usr/bin/gcc", "Python.h": tmp_path / "Python.h"}
    there["Python.h"].touch()
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(decoder.importlib.util, "find_spec", lambda name: there.get(name))
    monkeypatch.setattr(decoder.shutil, "which", lambda name: there["compiler"])
    monkeypatch.setattr(decoder.sysconfig, "get_path", lambda name: str(tmp_path))
    assert compiler_missing(torch.device("cuda")) is None
    there["Python.h"].rename(tmp_path / "other") if missing == "Python.h" else None
    there[missing] = None
    assert missing in compiler_missing(torch.device("cuda"))


# --- the update -----------------------------------------------------------------------------------


class OneNumber:
    """A policy of one parameter for each token of the rollouts."""

    def __init__(self, shape):
        self.logits = torch.nn.Parameter(torch.full(shape, -1.0, device=META))

    def token_logprobs(self, rollouts, temperature, entropy_gradient):
        logp = self.logits[: len(rollouts.tokens)]
        return TokenScores(logp, -logp)


class Stub:
    def __init__(self, shape):
        self.policy = OneNumber(shape)
        self.parameters = [self.policy.logits]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-3)


def updated(micro_batch, monkeypatch) -> Watched:
    """What is seen during an update of two passes over 12 rollouts of 5 tokens."""
    rows, T = 12, 5
    cut = ("tokens", "mask", "logprobs")
    monkeypatch.setattr(
        Rollouts, "rows", lambda self, i: self._replace(**{x: getattr(self, x)[i] for x in cut})
    )
    config = TrainConfig.preset("demo", micro_batch=micro_batch, epochs=2, entropy=0.1)
    advantages = np.random.default_rng(0).normal(size=(3, 4))
    mask = torch.ones(rows, T, dtype=torch.bool, device=META)
    ids, nothing = mask.long(), torch.zeros(rows, T, device=META)
    rollouts = Rollouts(ids, mask, ids[:, 0], ids, mask, nothing, mask[:, 0])
    learner = Stub((rows, T))
    with Watched() as seen:
        update_policy(learner, config, rollouts, advantages, False)
    return seen


@pytest.mark.slow
def test_an_update_reads_its_figures_when_all_parts_are_under_way(monkeypatch):
    """Each figure once, whatever the number of parts; loss and gradient norm once a pass."""
    read = []
    monkeypatch.setattr(step, "_sum", lambda scalars: read.append(len(scalars)) or 0.5)
    assert [updated(rows, monkeypatch).reads for rows in (6, 1)] == [3, 3]  # norms, all tokens
    assert read == [2] * 6 + [12] * 6


def test_an_update_needs_no_double_precision(monkeypatch):
    assert updated(6, monkeypatch).dtypes == {torch.float32, torch.int64, torch.bool}


class Started(TorchDispatchMode):
    """Counts the kernels that are started: operations that do more than look at a tensor anew."""

    LOOKS = ("view", "_unsafe_view", "t", "transpose", "unsqueeze", "expand", "slice", "detach")
    count = 0

    def __torch_dispatch__(self, kernel, types, args=(), kwargs=None):
        self.count += kernel.__name__.partition(".")[0] not in self.LOOKS
        return kernel(*args, **kwargs or {})


def test_shared_prompts_start_twice_as_many_kernels():
    """As "On a GPU" of the reference says: a pass over the prompts, and one over what follows."""
    model, started = small_model(), {}
    ids, whole = torch.full((6, 4), 7), torch.ones(6, 4, dtype=torch.bool)
    prompts = (ids[:2], whole[:2], torch.arange(2).repeat_interleave(3))
    rollouts = Rollouts(*prompts, ids, whole, torch.zeros(6, 4), whole[:, 0])
    for share in (True, False):
        with Started() as seen:
            logits = sampling.completion_logits(model, rollouts, share=share)
        assert logits.shape == (6, 4, 37)
        started[share] = seen.count
    assert 1.8 < started[True] / started[False] < 2.3, started


# --- the step that a CUDA graph replays -----------------------------------------------------------


class Tape(TorchDispatchMode):
    """What a CUDA graph keeps of a step: its kernels and the tensors, nothing of Python."""

    def __init__(self):
        super().__init__()
        self.kernels = []

    def __torch_dispatch__(self, kernel, types, args=(), kwargs=None):
        assert kernel is not READ, "a step that reads a number cannot be recorded"
        made = kernel(*args, **kwargs or {})
        self.kernels.append((kernel, args, kwargs or {}, made))
        return made

    def replay(self):
        for kernel, args, kwargs, made in self.kernels:
            again = kernel(*args, **kwargs)
            for old, new in zip(tensors(made), tensors(again), strict=True):
                if old.data_ptr() != new.data_ptr():
                    old.copy_(new)


def taped(step, device):
    """As :func:`vpo_lite.policy.graphs.replayed`, on the CPU. The first call records."""
    tape = Tape()

    def advance():
        if tape.kernels:
            return tape.replay()
        with tape:
            step()

    return advance


def rollouts_of(model, uniforms, forward, eos_ids=(2, 7)) -> Rollouts:
    return sample_tokens(model, PROMPTS, uniforms, eos_ids=eos_ids, pad_id=0, forward=forward)


def equal(one: Rollouts, other: Rollouts) -> bool:
    exact = ("tokens", "mask", "truncated")
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in exact) and (
        torch.allclose(one.logprobs, other.logprobs, atol=1e-4)
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", [LlamaForCausalLM, Qwen2ForCausalLM])
def test_a_recorded_step_draws_what_python_draws(kind, monkeypatch):
    model = small_model(kind=kind)
    uniforms = np.random.default_rng(1).random((2, 8, 20))
    plain = rollouts_of(model, uniforms, DecoderView(model))
    assert len(set(plain.mask.sum(1).tolist())) > 3 and plain.tokens.shape[1] > 8
    assert equal(rollouts_of(model, uniforms, DecoderView(model, static=True)), plain)
    monkeypatch.setattr(sampling, "replayed", taped)
    assert equal(rollouts_of(model, uniforms, DecoderView(model, static=True)), plain)


def test_a_step_that_keeps_its_place_in_python_is_not_what_a_recorded_one_draws(monkeypatch):
    """The negative of the test above: the view for the CPU, recorded as if it were static."""
    model, uniforms = small_model(), np.random.default_rng(1).random((2, 8, 20))
    plain = rollouts_of(model, uniforms, DecoderView(model))
    monkeypatch.setattr(sampling, "replayed", taped)
    view = DecoderView(model)
    prefill = view.prefill

    def then_static(*args):
        logits = prefill(*args)
        view.static = True
        return logits

    view.prefill = then_static
    assert not equal(rollouts_of(model, uniforms, view), plain)


def test_a_static_view_masks_the_places_to_come_where_no_prompt_is_padded():
    model, uniforms = small_model(), np.random.default_rng(2).random((2, 4, 12))
    plain, static = (
        sample_tokens(
            model,
            [[5, 6, 7], [3, 4, 8]],
            uniforms,
            eos_ids={2, 7},
            pad_id=0,
            forward=DecoderView(model, static=static),
        )
        for static in (False, True)
    )
    assert equal(plain, static)


@pytest.mark.parametrize("make", [DecoderView, HFForward])
@pytest.mark.parametrize("static", [True, False])
def test_a_step_is_recorded_where_all_have_one_shape_when_one_has_run(make, static, monkeypatch):
    """The first step runs every kernel once. The model's own cache grows, so it is never static."""
    model, ran, recorded = small_model(), [], []
    forward = DecoderView(model, static=static) if make is DecoderView else HFForward(model)
    usual = forward.step
    monkeypatch.setattr(forward, "step", lambda tokens: ran.append(1) or usual(tokens))
    monkeypatch.setattr(
        sampling, "replayed", lambda step, device: recorded.append(len(ran)) or step
    )
    rollouts_of(model, np.random.default_rng(3).random((2, 3, 6)), forward, eos_ids={-1})
    assert len(ran) == 5 and recorded == [1] * (make is DecoderView and static)


class Stream:
    """A queue of a GPU."""

    def __init__(self, device):
        self.device = torch.device(device)


class Cards:
    """Two GPUs without kernels: which one is in use, and the stream in use on each.

    Torch's own Python for streams and graphs runs on them. ``breaks``: recording fails, and as on a
    GPU it fails again where it ends.
    """

    def __init__(self):
        self.used, self.streams = 0, [Stream("cuda:0"), Stream("cuda:1")]
        self.recorded, self.replays, self.breaks = [], [], False

    def current_stream(self, device=None):
        index = None if device is None else torch.device(device).index
        return self.streams[self.used if index is None else index]

    def set_stream(self, stream):
        self.used = stream.device.index
        self.streams[self.used] = stream

    @contextlib.contextmanager
    def device(self, device):
        before, self.used = self.used, torch.device(device).index
        yield
        self.used = before

    def graph(self):
        return FakeGraph(self)


class FakeGraph:
    """CUDA's recorder, as far as Python sees it."""

    def __init__(self, cards):
        self.cards = cards

    def capture_begin(self, **_):
        self.cards.recorded.append(self.cards.current_stream())

    def capture_end(self):
        if self.cards.breaks:
            raise RuntimeError("operation failed due to a previous error during capture\nmore")

    def replay(self):
        self.cards.replays.append(self)


@pytest.fixture
def cards(monkeypatch):
    cards = Cards()
    for name in ("current_stream", "set_stream", "device"):
        monkeypatch.setattr(torch.cuda, name, getattr(cards, name))
    for name in ("synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    monkeypatch.setattr(torch._C, "_host_emptyCache", lambda: None, raising=False)
    monkeypatch.setattr(torch.cuda, "_get_device_index", lambda *_: 0)
    monkeypatch.setattr(torch.cuda.graph, "default_capture_stream", None)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device="cuda:0": Stream(device))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", cards.graph)
    monkeypatch.setattr(graphs, "_STREAMS", graphs._Streams())
    monkeypatch.setattr(graphs, "_BROKEN", threading.Event())
    return cards


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_a_step_is_recorded_once_and_then_replayed(device, cards):
    calls = []
    advance = replayed(lambda: calls.append(1), torch.device(device))
    for _ in range(3):
        advance()
    assert (len(calls), len(cards.replays)) == {"cpu": (3, 0), "cuda:0": (1, 3)}[device]


def recorded_on(device, cards) -> Stream:
    """The stream that is in use on a GPU while a step of it is recorded."""
    used = []
    replayed(lambda: used.append(cards.current_stream(device)), device)
    assert used == cards.recorded[-1:]
    return used[0]


def test_every_gpu_records_on_a_stream_of_its_own(cards):
    """On one of another GPU nothing would be recorded: the kernels would run, once."""
    before = list(cards.streams)
    zero, one = torch.device("cuda:0"), torch.device("cuda:1")
    found = [recorded_on(device, cards) for device in (zero, one, one, zero)]
    assert [stream.device for stream in found] == [zero, one, one, zero]
    assert found[0] is not before[0] and found[1] is not before[1]  # no default stream records
    assert found[1] is found[2]  # cuBLAS keeps memory for every stream
    assert cards.used == 0 and cards.streams == before


def test_every_thread_records_on_a_stream_of_its_own(cards):
    """The end of one thread's graph frees what cuBLAS keeps for its stream."""
    device = torch.device("cuda:0")
    with ThreadPoolExecutor(1) as other:
        theirs = [other.submit(recorded_on, device, cards).result() for _ in range(2)]
    assert theirs[0] is theirs[1] is not recorded_on(device, cards)


def test_one_thread_records_at_a_time(cards, monkeypatch):
    """A recording begins with torch.cuda.synchronize, which breaks one that is under way."""
    device, both = torch.device("cuda:0"), threading.Barrier(2)
    under_way, broken = [], []
    begin, end = FakeGraph.capture_begin, FakeGraph.capture_end
    monkeypatch.setattr(
        FakeGraph, "capture_begin", lambda g, **how: (under_way.append(g), begin(g, **how))
    )
    monkeypatch.setattr(FakeGraph, "capture_end", lambda g: (under_way.remove(g), end(g)))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: broken.extend(under_way))

    def record():
        both.wait()
        replayed(lambda: time.sleep(0.05), device)

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(record) for _ in range(2)]:
            done.result()
    assert len(cards.recorded) == 2 and not broken


@pytest.mark.parametrize("index", [0, 1])
def test_a_step_that_cannot_be_recorded_is_run_by_python(index, cards):
    calls, before = [], list(cards.streams)
    cards.breaks = True

    def step():
        calls.append(cards.current_stream(torch.device("cuda", index)))
        if len(calls) == 1:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")

    with pytest.warns(
        UserWarning, match="without a CUDA graph, until .* again: operation not permitted.*ing$"
    ):
        advance = replayed(step, torch.device("cuda", index))
    advance()
    assert len(calls) == 2  # one of them recorded, which changes no tensor on a GPU
    assert calls[1] is before[index]  # not the stream on which recording failed
    assert cards.used == 0 and cards.streams == before
    assert replayed(step, torch.device("cuda", index)) is step and len(calls) == 2
    assert len(cards.recorded) == 1, "torch goes on as if the recording that broke had no end"


@pytest.mark.parametrize("every", [3, 8, 100])
def test_rollouts_do_not_depend_on_how_often_their_end_is_looked_for(every, monkeypatch):
    model, uniforms = small_model(), np.random.default_rng(1).random((2, 3, 40))
    plain = rollouts_of(model, uniforms, DecoderView(model), set(range(2, 12)))
    assert 2 < plain.tokens.shape[1] < 39  # it ended before the limit
    monkeypatch.setattr(sampling, "LOOK_EVERY", {"cpu": every})
    assert equal(rollouts_of(model, uniforms, DecoderView(model), set(range(2, 12))), plain)
