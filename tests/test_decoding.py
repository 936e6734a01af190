"""The sampler: same logits as the model, same probabilities as the trainer, honest frequencies, EOS
and padding.
"""

import copy
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from vpo_lite.policy import decoder, drawing, sampling
from vpo_lite.policy.decoder import DecoderView, compiler_missing, decoder_for
from vpo_lite.policy.loading import load_policy
from vpo_lite.policy.policy import Policy
from vpo_lite.policy.sampling import (
    HFForward,
    Rollouts,
    cache_name,
    completion_logits,
    pad_prompts,
    sample_tokens,
    shares_prompts,
)
from vpo_lite.policy.threads import one_thread_if_small, torch_threads
from vpo_lite.tasks import Prompt

SHAPE = dict(
    vocab_size=37, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4
)


def models():
    torch.manual_seed(0)
    yield "llama", LlamaForCausalLM(LlamaConfig(**SHAPE, num_key_value_heads=4))
    yield (
        "llama, grouped heads, tied",
        LlamaForCausalLM(LlamaConfig(**SHAPE, num_key_value_heads=2, tie_word_embeddings=True)),
    )
    yield "qwen2 with biases", Qwen2ForCausalLM(Qwen2Config(**SHAPE, num_key_value_heads=2))
    yield (
        "qwen3 with normed heads",
        Qwen3ForCausalLM(Qwen3Config(**SHAPE, num_key_value_heads=2, head_dim=16)),
    )
    yield (
        "mistral",
        MistralForCausalLM(MistralConfig(**SHAPE, num_key_value_heads=2, sliding_window=None)),
    )
    yield (
        "gpt2 through its own forward",
        GPT2LMHeadModel(GPT2Config(vocab_size=37, n_embd=32, n_layer=2, n_head=2, n_positions=64)),
    )


def with_adapter(model):
    """A LoRA adapter whose delta is not zero, on every linear layer; no norm is 1, no bias 0."""
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.15) if p.dim() > 1 else p.data.add_(torch.randn_like(p) / 5)
    lora = LoraConfig(
        r=4,
        lora_alpha=8,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
        fan_in_fan_out=model.config.model_type == "gpt2",
    )
    return with_random_adapter(get_peft_model(model, lora))


def with_random_adapter(model):
    for name, p in model.named_parameters():
        if "lora_B" in name or "lora_embedding" in name:
            torch.nn.init.normal_(p, std=0.2)
    return model.eval()


MODELS = [(name, with_adapter(model)) for name, model in models()]
WINDOWS = dict(use_sliding_window=True, sliding_window=3, max_window_layers=1)
LENGTHENED = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
PROMPTS = [[5, 6, 7, 8, 9], [3, 4]]  # of different lengths: the second is left-padded


@pytest.fixture(params=MODELS, ids=[name for name, _ in MODELS])
def model(request):
    return request.param[1]


def plain_logits(model, ids):
    """The model's own logits for one unpadded sequence."""
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits[0]


def sample(model, prompts, uniforms, *, eos_ids=(2,), temperature=1.0, **options):
    """As a policy samples: through the fast view where there is one."""
    return sample_tokens(
        model,
        prompts,
        uniforms,
        eos_ids=eos_ids,
        pad_id=0,
        temperature=temperature,
        forward=decoder_for(model, **options),
    )


def test_the_architectures_take_the_ways_they_should():
    ways = {name: type(decoder_for(model)) for name, model in MODELS}
    assert ways.pop("gpt2 through its own forward") is HFForward
    assert set(ways.values()) == {DecoderView}


@pytest.mark.parametrize("make", [decoder_for, HFForward])
@pytest.mark.parametrize("adapter", [True, False])
def test_teacher_forced_logits_equal_the_models_with_padding_and_adapter_on_and_off(
    model, adapter, make
):
    forced = torch.tensor([[11, 12, 13], [21, 22, 23]])
    ids, mask = pad_prompts(PROMPTS, 0, "cpu")

    def compare():
        with torch.no_grad():
            forward = make(model)
            seen = [forward.prefill(ids, mask, torch.tensor([0, 0, 1, 1]), 4)[[0, 2]]]
            for t in range(3):
                seen.append(forward.step(forced[:, t].repeat_interleave(2))[[0, 2]])
        for row, prompt in enumerate(PROMPTS):
            whole = plain_logits(model, prompt + forced[row].tolist())
            for t, logits in enumerate(seen):
                assert torch.allclose(logits[row], whole[len(prompt) - 1 + t], atol=1e-5), (row, t)

    if adapter:
        compare()
    else:
        with model.disable_adapter():
            compare()


def test_sampler_logprobs_equal_the_trainers(model):
    class Words:
        eos_token_id, pad_token_id = 2, 0

    policy = Policy(model, Words(), "test", None)
    uniforms = np.random.default_rng(0).random((2, 3, 8))
    for temperature in (1.0, 0.7):
        rollouts = sample(model, PROMPTS, uniforms, temperature=temperature)
        with torch.no_grad():
            logp, entropy = policy.token_logprobs(rollouts, temperature)
        assert torch.allclose(logp[rollouts.mask], rollouts.logprobs[rollouts.mask], atol=1e-4)
        assert (entropy[rollouts.mask] > 0).all() and (
            entropy[rollouts.mask] <= np.log(37) + 1e-5
        ).all()


def gradients_of(model, rollouts, share):
    """Logits at the counted tokens, the adapter's gradient of a fixed sum over them, and the tokens
    that the model read.
    """
    read = []
    embedding = model.get_input_embeddings()
    hook = embedding.register_forward_pre_hook(
        lambda module, inputs: read.append(inputs[0].numel())
    )
    trained = [p for name, p in model.named_parameters() if "lora" in name]
    model.zero_grad()
    logits = completion_logits(model, rollouts, share=share)
    hook.remove()
    counted = torch.log_softmax(logits, -1)[rollouts.mask]
    (counted * torch.sin(torch.arange(counted.numel())).view_as(counted)).sum().backward()
    return logits.detach()[rollouts.mask], torch.cat([p.grad.flatten() for p in trained]), sum(read)


def test_a_shared_prompt_gives_the_logits_and_gradients_of_whole_rows(model):
    """Prompts of different length, rows in any order, of different length; the prompts are read
    once instead of six times.
    """
    uniforms = np.random.default_rng(5).random((2, 3, 9))
    rollouts = sample(model, PROMPTS, uniforms, eos_ids={2, 3, 4, 5, 6, 7})
    shuffled = rollouts.rows(torch.tensor([4, 0, 3, 5, 1]))
    assert (
        shuffled.prompt_of.tolist() == [1, 0, 1, 1, 0]
        and shuffled.prompts.shape == rollouts.prompts.shape
    )
    for some in (rollouts, shuffled, rollouts.rows(slice(3, 5))):
        L, T = some.prompts.shape[1], some.tokens.shape[1]
        shared, gradient, read = gradients_of(model, some, True)
        whole, expected, everything = gradients_of(model, some, False)
        assert torch.allclose(shared, whole, atol=1e-5)
        assert (gradient - expected).abs().max() < 2e-5 * expected.abs().max()
        rows, prompts = len(some.tokens), len(some.prompts)
        assert (read, everything) == (prompts * L + rows * (T - 1), rows * (L + T))


def test_rows_are_cut_to_the_longest_of_them_and_of_their_prompts():
    """Rows of 1, 3 and 4 tokens that continue prompts of 4, 2 and 3: all that counts is kept."""
    ids, mask = pad_prompts([[5, 6, 7, 8], [3, 4], [9, 9, 9]], 0, "cpu")
    real = torch.arange(4) < torch.tensor([[1], [3], [4]])
    tokens = torch.arange(1, 13).view(3, 4) * real
    whole = Rollouts(ids, mask, torch.arange(3), tokens, real, -1.0 * tokens, real[:, 3])
    some = whole.rows([1, 0])
    assert some.prompts.shape == (2, 4) and some.prompt_of.tolist() == [1, 0]
    assert some.tokens.tolist() == [[5, 6, 7], [1, 0, 0]]
    some = whole.rows(slice(1, 3))
    assert some.prompts.tolist() == [[0, 3, 4], [9, 9, 9]] and some.tokens.shape == (2, 4)
    assert some.prompt_mask.tolist() == [[False, True, True], [True] * 3]
    some = whole.rows(torch.tensor([False, True, False]))
    assert some.prompts.tolist() == [[3, 4]] and some.prompt_mask.all() and some.mask.all()
    assert some.logprobs.tolist() == [[-5, -6, -7]] and some.truncated.tolist() == [False]


def test_one_token_completions_and_sliding_windows_are_scored_too():
    one = sample(MODELS[0][1], PROMPTS, np.random.default_rng(6).random((2, 2, 1)))
    assert torch.allclose(
        *(completion_logits(MODELS[0][1], one, share=share) for share in (True, False)), atol=1e-5
    )
    torch.manual_seed(1)
    windowed = MistralForCausalLM(
        MistralConfig(**SHAPE, num_key_value_heads=2, sliding_window=4)
    ).eval()
    rollouts = sample(windowed, PROMPTS, np.random.default_rng(7).random((2, 3, 9)))
    read = []
    windowed.get_input_embeddings().register_forward_pre_hook(
        lambda module, inputs: read.append(tuple(inputs[0].shape))
    )
    with torch.no_grad():
        logits = completion_logits(windowed, rollouts, share=shares_prompts(windowed))
    assert read == [(6, 5 + rollouts.tokens.shape[1])]  # whole rows alone
    for row in range(6):
        end = int(rollouts.mask[row].sum())
        ids = PROMPTS[rollouts.prompt_of[row]] + rollouts.tokens[row, :end].tolist()
        assert torch.allclose(
            logits[row, :end], plain_logits(windowed, ids)[-end - 1 : -1], atol=1e-5
        )


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_token_frequencies_match_the_softmax(temperature):
    """No hidden top-k or top-p: 40,000 draws against the model's own distribution."""
    model = MODELS[0][1]
    uniforms = np.random.default_rng(1).random((1, 40_000, 1))
    rollouts = sample(model, PROMPTS[:1], uniforms, temperature=temperature)
    seen = np.bincount(rollouts.tokens[:, 0].numpy(), minlength=37) / 40_000
    expected = torch.softmax(plain_logits(model, PROMPTS[0])[-1] / temperature, -1).numpy()
    assert abs(seen - expected).max() < 4 * np.sqrt(expected.max() / 40_000)


@pytest.mark.parametrize("size", [500, 512, 513, 3000])
def test_a_token_of_a_large_vocabulary_is_where_its_probabilities_add_up_to_u(size):
    """Against a running sum in double precision. A few tokens have nearly all probability."""
    rng = np.random.default_rng(size)
    logp = torch.log_softmax(torch.tensor(rng.normal(0, 4, (1, size)), dtype=torch.float32), -1)
    u = rng.random((4000, 1))
    upto = np.cumsum(np.exp(logp[0].double().numpy()))
    far = abs(u * upto[-1] - upto).min(1) > 1e-6  # from where one token ends and the next begins
    drawn = drawing._draw(logp.expand(4000, -1), torch.tensor(u))[:, 0].numpy()
    expected = (upto <= u * upto[-1]).sum(1)
    assert far.mean() > 0.95 and len(set(expected)) > 50
    assert (drawn == expected)[far].all() and abs(drawn - expected)[~far].max(initial=0) < size


def test_logits_in_half_precision_are_divided_and_added_up_in_single_precision():
    logits = torch.tensor(np.random.default_rng(0).normal(0, 4, (1, 300))).bfloat16()
    done = drawing.Drawing(np.full((1, 1, 1), 0.9), [0], 0, 0.7, torch.device("cpu"))
    done.draw(logits)
    expected = torch.log_softmax(logits.double() / 0.7, -1)[0, done.tokens[0, 0]]
    assert done.logprobs.item() == pytest.approx(expected.item(), abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_ends_of_a_large_vocabulary(dtype):
    """The first and the last number in [0, 1) draw tokens that can be drawn: 700 and 1500."""
    logp = torch.full((2, 2000), float("-inf"))
    logp[:, 700], logp[:, 1500] = np.log(0.25), np.log(0.75)
    u = torch.tensor([[0.0], [1 - torch.finfo(dtype).eps / 2]], dtype=dtype)
    assert drawing._draw(logp, u)[:, 0].tolist() == [700, 1500]


@pytest.mark.parametrize("size", [5, 512, 600])
def test_of_a_distribution_that_is_no_number_a_token_is_drawn_that_exists(size):
    """So a diverged policy ends in the error of the update, not in an index out of range."""
    u = torch.tensor([[0.0], [0.5], [1 - 2**-53]], dtype=torch.float64)
    drawn = drawing._draw(torch.full((3, size), torch.nan), u)
    assert ((0 <= drawn) & (drawn < size)).all()


def test_in_single_precision_no_uniform_number_becomes_one(monkeypatch):
    """Else the last token would be drawn, which has probability 0."""
    monkeypatch.setattr(drawing, "SINGLE", ("cpu",))
    u = drawing._on_device(np.array([[0.0], [0.5], [1 - 2**-53]]), torch.device("cpu"))
    assert u.dtype == torch.float32
    assert u[:, 0].tolist() == [0.0, 0.5, np.nextafter(np.float32(1), np.float32(0))]
    logp = torch.log_softmax(torch.tensor([[0.0, 0.0, -1e4]]), -1).expand(3, 3)
    assert drawing._draw(logp, u)[:, 0].tolist() == [0, 1, 1]


def test_a_rare_token_of_a_large_vocabulary_is_drawn_in_its_turn():
    """It has a probability of 1e-12, in the block of a token that has nearly everything."""
    logp = torch.full((3, 2000), float("-inf"))
    logp[:, 600], logp[:, 601], logp[:, 602] = 0.0, np.log(1e-12), np.log(1e-3)
    weights = logp[0].exp().double()
    share = float(weights[600] / weights.sum())
    u = torch.tensor([[share - 1e-12], [share + 5e-13], [share + 2e-12]], dtype=torch.float64)
    assert drawing._draw(logp, u)[:, 0].tolist() == [600, 601, 602]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, index", [("llama", 0), ("qwen2 with biases", 2), ("qwen3 with normed heads", 3)]
)
def test_in_bfloat16_the_view_is_as_near_to_fp32_as_the_model_is(name, index):
    """Over fp32 weights (LoRA folded in, then rounded) and over bf16 weights (LoRA kept apart): the
    error against the fp32 model is that of the HF model in bf16, which shows that nothing else was
    lost."""
    model = MODELS[index][1]
    ids, mask = pad_prompts(PROMPTS, 0, "cpu")
    forced = torch.tensor([[11, 12, 13], [21, 22, 23]])
    half = copy.deepcopy(model)
    for name_, p in half.named_parameters():
        if "lora" not in name_:
            p.data = p.data.bfloat16()
    exact = [
        plain_logits(model, prompt + row)
        for prompt, row in zip(PROMPTS, forced.tolist(), strict=True)
    ]
    own = [
        plain_logits(half, prompt + row)
        for prompt, row in zip(PROMPTS, forced.tolist(), strict=True)
    ]
    rounding = max((a - b).abs().max() for a, b in zip(own, exact, strict=True))
    for source in (model, half):
        with torch.no_grad():
            view = DecoderView(source, dtype=torch.bfloat16)
            seen = [view.prefill(ids, mask, torch.tensor([0, 1]), 4)]
            seen += [view.step(forced[:, t]) for t in range(3)]
        for row, prompt in enumerate(PROMPTS):
            for t, logits in enumerate(seen):
                assert logits.dtype == torch.bfloat16
                assert (logits[row] - exact[row][len(prompt) - 1 + t]).abs().max() < 2 * rounding


def test_a_small_adapter_is_not_rounded_away_beside_bfloat16_weights():
    """LoRA that is a thousandth of the weights: within half a unit in the last place of bf16, so
    folding would lose it.
    """
    model = copy.deepcopy(MODELS[0][1])
    for name, p in model.named_parameters():
        p.data = p.data * 1e-3 if "lora_B" in name else p.data
        p.data = p.data if "lora" in name else p.data.bfloat16()
    layer = model.get_base_model().model.layers[0].self_attn
    projections = (layer.q_proj, layer.k_proj, layer.v_proj)
    weight, _, down, up = DecoderView(model).parameters.layers[0].qkv
    assert torch.equal(weight, torch.cat([p.base_layer.weight for p in projections]))
    delta = torch.cat([p.get_delta_weight("default") for p in projections])
    assert ((weight + delta).bfloat16() == weight).float().mean() > 0.8
    assert (up.float() @ down.float() - delta).abs().max() < 0.02 * delta.abs().max()


@pytest.mark.long
def test_the_compiled_view_samples_what_the_eager_one_samples():
    """With padded prompts, over two snapshots of changing weights, at lengths that do and do not
    fill the padded cache.
    """
    if missing := compiler_missing(torch.device("cpu")):
        pytest.skip(missing)
    model = copy.deepcopy(MODELS[3][1])
    for T in (9, 40):
        uniforms = np.random.default_rng(T).random((2, 3, T))
        eager, compiled = (sample(model, PROMPTS, uniforms, compiled=how) for how in (False, True))
        assert torch.equal(eager.tokens, compiled.tokens) and torch.equal(eager.mask, compiled.mask)
        assert torch.allclose(eager.logprobs, compiled.logprobs, atol=1e-4)
        for p in model.parameters():
            p.data.mul_(0.9)


@pytest.mark.slow
def test_lengths_that_differ_a_little_share_one_compiled_step(monkeypatch):
    """Counted by a compiler that only looks at what it is given."""
    seen = []

    def look(graph, inputs):
        seen.append(len(inputs))
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(decoder._step, dynamic=False, backend=look)
    monkeypatch.setattr(decoder, "_compiled_step", lambda: compiled)
    model = MODELS[0][1]
    for length, T in [(10, 20), (10, 21), (11, 21), (12, 31), (16, 17), (9, 29)]:
        prompts = [list(range(3, 3 + length)), [3, 4]]
        uniforms = np.random.default_rng(length).random((2, 4, T))
        fast, plain = (sample(model, prompts, uniforms, compiled=how) for how in (True, False))
        assert torch.equal(fast.tokens, plain.tokens)
    assert len(seen) == 1
    sample(model, PROMPTS, np.random.default_rng(0).random((2, 5, 20)), eos_ids={-1}, compiled=True)
    assert len(seen) == 2  # another number of rows is another kernel


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Model has .tie_word_embeddings")  # peft 0.18
def test_adapters_that_are_more_than_lora_are_sampled_by_the_models_own_forward():
    """DoRA rescales the sum, and an adapter on the embeddings changes what a token is: neither is
    in the folded weights. An adapter that peft has merged is in them already.
    """
    base = lambda: Qwen2ForCausalLM(Qwen2Config(**SHAPE, num_key_value_heads=2))  # noqa: E731
    plain = dict(r=4, target_modules=["q_proj", "k_proj", "v_proj"], task_type="CAUSAL_LM")
    assert isinstance(decoder_for(get_peft_model(base(), LoraConfig(**plain))), DecoderView)
    for more in (
        dict(use_dora=True),
        dict(target_modules=["q_proj", "embed_tokens"]),
        dict(modules_to_save=["lm_head"]),
        dict(lora_bias=True),
        "merged",
    ):
        settings = plain if more == "merged" else plain | more
        model = with_random_adapter(get_peft_model(base(), LoraConfig(**settings)))
        if more == "merged":
            model.merge_adapter()
        assert isinstance(decoder_for(model), HFForward), more
        rollouts = sample(model, PROMPTS, np.random.default_rng(0).random((2, 3, 6)))
        logits = completion_logits(model, rollouts, share=shares_prompts(model))
        logp = torch.log_softmax(logits, -1).gather(-1, rollouts.tokens[..., None])[..., 0]
        assert torch.allclose(logp[rollouts.mask], rollouts.logprobs[rollouts.mask], atol=1e-4)


@pytest.mark.parametrize(
    "config, cached",
    [
        (LlamaConfig(**SHAPE, hidden_act="gelu"), True),
        (Qwen2Config(**SHAPE, num_key_value_heads=2, **WINDOWS), True),
        (MistralConfig(**SHAPE, num_key_value_heads=2, sliding_window=3), True),
        # its angles change with the length, so a cache never holds what a whole pass computes
        (LlamaConfig(**SHAPE, rope_parameters=LENGTHENED), False),
    ],
    ids=["activation", "windows", "window", "angles"],
)
def test_settings_that_the_view_does_not_compute_are_left_to_the_models_own_forward(config, cached):
    model = with_adapter(AutoModelForCausalLM.from_config(config))
    assert isinstance(decoder_for(model), HFForward)
    uniforms, ends = np.random.default_rng(9).random((2, 2, 9)), (4, 9)
    uniforms[0, :, 4:] = np.nan  # rows of the first prompt leave the batch
    rollouts = sample(model, PROMPTS, uniforms, eos_ids={-1})
    for row, p in enumerate(rollouts.prompt_of.tolist() if cached else []):
        n, ids = ends[p], rollouts.tokens[row, : ends[p]].tolist()
        logp = plain_logits(model, PROMPTS[p] + ids)[-n - 1 : -1].log_softmax(-1)
        assert torch.allclose(logp[range(n), ids], rollouts.logprobs[row, :n], atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["default", "linear", "llama3", "yarn"])
def test_the_view_turns_heads_by_the_angles_of_the_model(kind):
    """Stretched ones, as those of models for long texts, and a scaling of their sines."""
    more = {
        "linear": dict(factor=4.0),
        "llama3": dict(
            factor=4.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=8,
        ),
        "yarn": dict(factor=4.0, original_max_position_embeddings=8),
    }
    angles = {"rope_type": kind, "rope_theta": 100.0} | more.get(kind, {})
    model = with_adapter(LlamaForCausalLM(LlamaConfig(**SHAPE, rope_parameters=angles)))
    assert isinstance(decoder_for(model), DecoderView)
    uniforms = np.random.default_rng(10).random((2, 2, 9))
    own = sample_tokens(model, PROMPTS, uniforms, eos_ids={-1}, pad_id=0)
    fast = sample(model, PROMPTS, uniforms, eos_ids={-1})
    assert torch.equal(own.tokens, fast.tokens)
    assert torch.allclose(own.logprobs, fast.logprobs, atol=1e-4)


def test_a_model_that_was_saved_without_a_cache_is_sampled_with_one():
    """As by a training with gradient checkpointing, which switches it off in config.json."""
    plain, uniforms = MODELS[-1][1], np.random.default_rng(11).random((2, 2, 6))
    without = copy.deepcopy(plain)
    without.get_base_model().config.use_cache = False
    one, other = (sample(model, PROMPTS, uniforms, eos_ids={-1}) for model in (plain, without))
    assert torch.equal(one.tokens, other.tokens) and torch.equal(one.logprobs, other.logprobs)


def test_of_a_prompt_the_logits_of_the_last_token_alone_are_computed():
    """A long prompt's logits over a large vocabulary would take more memory than the model."""
    model, shapes = MODELS[-1][1], []
    hook = model.get_output_embeddings().register_forward_hook(
        lambda module, inputs, logits: shapes.append(tuple(logits.shape))
    )
    sample(model, PROMPTS, np.zeros((2, 3, 2)), eos_ids={-1})
    hook.remove()
    assert shapes == [(2, 1, 37), (6, 1, 37)]


def test_a_cache_has_the_name_that_the_models_forward_pass_gives_it():
    """transformers has renamed it in 5.24; older versions are supported, too."""

    class Since:
        def forward(self, input_ids, cache=None): ...

    class Before:
        def forward(self, input_ids, past_key_values=None): ...

    class Silent:
        def forward(self, input_ids, **kwargs): ...

    names = [cache_name(kind()) for kind in (Since, Before, Silent)]
    assert names == ["cache", "past_key_values", "past_key_values"]


def test_beside_half_precision_a_projection_without_an_adapter_stays_as_it_is():
    """LoRA on queries and values alone, which is peft's default for these models."""
    base = Qwen2ForCausalLM(Qwen2Config(**SHAPE, num_key_value_heads=2))
    lora = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = with_random_adapter(get_peft_model(base.bfloat16(), lora))
    layer = model.get_base_model().model.layers[0].self_attn
    _, _, down, up = DecoderView(model).parameters.layers[0].qkv
    nothing = torch.zeros_like(layer.k_proj.weight)
    deltas = [p.get_delta_weight("default") for p in (layer.q_proj, layer.v_proj)]
    expected = torch.cat([deltas[0], nothing, deltas[1]]).float()
    found = up.float() @ down.float()
    assert (found - expected).abs().max() < 0.02 * expected.abs().max()


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_small_products_run_on_one_thread(three_threads):
    shape = SHAPE | {"vocab_size": 5000, "num_key_value_heads": 2, "tie_word_embeddings": True}
    tied = LlamaForCausalLM(LlamaConfig(**shape))
    largest = 10 * 32 * 5000  # the output layer, though it is the embedding, too
    with one_thread_if_small(tied, 10, largest):
        assert torch.get_num_threads() == 3
    with one_thread_if_small(tied, 10, largest + 1), one_thread_if_small(tied, 10, largest + 1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


def test_a_block_of_threads_ends_with_the_number_it_began_with(three_threads):
    with torch_threads(2):
        assert torch.get_num_threads() == 2
        with torch_threads(None):
            assert torch.get_num_threads() == 2
            torch.set_num_threads(1)  # None leaves alone what others set inside
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3
    with pytest.raises(KeyError), torch_threads(1):
        raise KeyError
    assert torch.get_num_threads() == 3


def test_concurrent_threads_have_the_number_that_they_set(three_threads):
    """One starts inside another's block, and stays behind when that block has ended."""
    born, leave, seen = threading.Event(), threading.Event(), []

    def other():
        with torch_threads(2):
            born.set()
            leave.wait(10)
            with torch_threads(1):
                seen.append(torch.get_num_threads())
            seen.append(torch.get_num_threads())

    thread = threading.Thread(target=other)
    with torch_threads(1):
        thread.start()
        assert born.wait(10)
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3
    leave.set()
    thread.join()
    assert seen == [1, 2]
    assert torch.get_num_threads() == 3


def test_a_rollout_does_not_depend_on_its_neighbours():
    model = MODELS[1][1]
    uniforms = np.random.default_rng(2).random((2, 4, 6))
    both = sample(model, PROMPTS, uniforms)
    for p in range(2):
        alone = sample(model, PROMPTS[p : p + 1], uniforms[p : p + 1, 1:3])
        rows = both.tokens[p * 4 + 1 : p * 4 + 3, : alone.tokens.shape[1]]
        assert torch.equal(rows * alone.mask, alone.tokens * alone.mask)


def test_rows_end_at_any_eos_and_the_eos_is_in_the_mask():
    model = MODELS[0][1]
    eos = {2, 7, 11, 13, 17, 19, 23}
    uniforms = np.random.default_rng(3).random((2, 30, 8))
    rollouts = sample(model, PROMPTS, uniforms, eos_ids=eos)
    truncated = []
    for row, mask in zip(rollouts.tokens.tolist(), rollouts.mask.tolist(), strict=True):
        length = sum(mask)
        assert mask == [True] * length + [False] * (len(mask) - length)
        body, last = row[: length - 1], row[length - 1]
        assert not eos & set(body)
        assert last in eos or length == 8
        assert set(row[length:]) <= {0}
        truncated.append(last not in eos)
    assert rollouts.tokens.shape[1] == rollouts.mask.sum(1).max()
    assert 0 < sum(truncated) < 60
    assert (rollouts.logprobs[~rollouts.mask] == 0).all()
    assert (rollouts.logprobs[rollouts.mask] < 0).all()
    assert rollouts.truncated.tolist() == truncated
    assert rollouts.rows(slice(7, 31)).truncated.tolist() == truncated[7:31]


class Scripted:
    """A forward pass that knows no model: row b gives all probability to token 5, or to the EOS 2
    from its end on."""

    static = False

    def __init__(self, ends):
        self.ends = torch.tensor(ends)

    def prefill(self, ids, mask, prompt_of, new_tokens):
        self.drawn = 0
        return self.step(None)

    def step(self, tokens):
        self.drawn += 1
        return 100 * F.one_hot(torch.where(self.drawn < self.ends, 5, 2), 37).float()

    def keep(self, rows, prompts):
        self.ends = self.ends[rows]


@pytest.mark.parametrize(
    ("ends", "used", "truncated"),
    [
        ([99, 99], 6, [True, True]),  # it cannot end
        ([3, 1], 3, [False, False]),  # it ends; the result is as long as the longest
        ([6, 7], 6, [False, True]),  # an EOS at the last place is an end
    ],
)
def test_truncated_rows_are_those_without_an_end(ends, used, truncated):
    uniforms, forward = np.random.default_rng(4).random((2, 1, 6)), Scripted(ends)
    rollouts = sample_tokens(
        MODELS[0][1], PROMPTS, uniforms, eos_ids={2}, pad_id=0, forward=forward
    )
    assert forward.drawn == used  # no token is computed behind the last end
    assert rollouts.truncated.tolist() == truncated
    assert rollouts.mask.sum(1).tolist() == [min(end, 6) for end in ends]
    assert rollouts.tokens.shape == (2, used)


@pytest.mark.parametrize("make", [decoder_for, HFForward])
@pytest.mark.parametrize("prompts", [[*PROMPTS, [9]], [[5, 6], [3, 4], [8, 9]]])
def test_rollouts_do_not_depend_on_rows_that_are_left_out(model, make, prompts, monkeypatch):
    """Groups that end early and late, limits that differ, with and without padded prompts."""
    uniforms = np.random.default_rng(8).random((3, 8, 30))
    uniforms[1, :, 4:] = np.nan
    uniforms[2, 3:, 12:] = np.nan
    rows = []

    def sampled():
        forward = make(model)
        step = forward.step
        forward.step = lambda tokens: rows.append(len(tokens)) or step(tokens)
        how = dict(eos_ids={2, 3, 4}, pad_id=0, forward=forward)
        return sample_tokens(model, prompts, uniforms, **how)

    some = sampled()
    dropped, rows[:] = rows.copy(), []
    monkeypatch.setattr(sampling, "_leave_out", lambda forward, drawing, groups: groups)
    every = sampled()
    assert set(rows) == {24} and len(rows) == len(dropped) > 12
    assert sorted(dropped, reverse=True) == dropped and len(set(dropped)) > 2
    for name in ("tokens", "mask", "truncated"):
        assert torch.equal(getattr(some, name), getattr(every, name)), name
    assert torch.allclose(some.logprobs, every.logprobs, atol=1e-5)


def test_ended_rows_are_left_out_as_soon_as_that_halves_the_rows():
    """By hand, of 2 x 4 rows that end after 9, 1, 1, 3 and 2, 2, 2, 1 tokens: eight rows draw the
    first two, then the first group goes on with its first and last row, then with the first.
    """
    uniforms = np.random.default_rng(4).random((2, 4, 12))
    forward, rows = Scripted([9, 1, 1, 3, 2, 2, 2, 1]), []
    usual = forward.step
    forward.step = lambda tokens: rows.append(len(forward.ends)) or usual(tokens)
    rollouts = sample_tokens(
        MODELS[0][1], PROMPTS, uniforms, eos_ids={2}, pad_id=0, forward=forward
    )
    assert rows == [8, 8, 2] + [1] * 6  # the first are the prompts' own
    assert rollouts.mask.sum(1).tolist() == [9, 1, 1, 3, 2, 2, 2, 1]
    assert rollouts.tokens[0].tolist() == [5] * 8 + [2] and not rollouts.truncated.any()
    assert rollouts.tokens[3].tolist() == [5, 5, 2] + [0] * 6


def test_a_static_forward_keeps_its_rows():
    forward = Scripted([9, 1])
    forward.static, forward.keep = True, None
    uniforms = np.random.default_rng(4).random((2, 1, 12))
    sample_tokens(MODELS[0][1], PROMPTS, uniforms, eos_ids={2}, pad_id=0, forward=forward)
    assert forward.drawn == 9


@pytest.mark.parametrize("device", ["cpu", "elsewhere"])
def test_a_row_ends_at_its_own_limit(monkeypatch, device):
    """Limits 3 and 6: the first row is cut off there, the second row ends with its EOS. Where the
    loop looks only now and then whether all have ended, they are the same.
    """
    monkeypatch.setattr(sampling, "LOOK_EVERY", {"cpu": 1 if device == "cpu" else 4})
    uniforms = np.random.default_rng(4).random((2, 1, 6))
    uniforms[0, :, 3:] = np.nan
    for ends, lengths, truncated in (
        ([99, 5], [3, 5], [True, False]),
        ([3, 99], [3, 6], [False, True]),
        ([2, 1], [2, 1], [False, False]),
    ):
        how = dict(eos_ids={2}, pad_id=0, forward=Scripted(ends))
        rollouts = sample_tokens(MODELS[0][1], PROMPTS, uniforms, **how)
        assert rollouts.mask.sum(1).tolist() == lengths
        assert rollouts.truncated.tolist() == truncated
        assert rollouts.tokens.shape == (2, max(lengths))
        assert (rollouts.tokens[0, lengths[0] :] == 0).all()
        assert rollouts.logprobs.isfinite().all()


def test_limits_change_no_token_before_them(model):
    uniforms = np.random.default_rng(12).random((2, 3, 9))
    cut = uniforms.copy()
    cut[1, :, 4:] = np.nan
    whole, parts = (sample(model, PROMPTS, u, eos_ids={-1}) for u in (uniforms, cut))
    assert torch.equal(whole.tokens[:3], parts.tokens[:3])
    assert torch.equal(whole.tokens[3:, :4], parts.tokens[3:, :4])
    assert torch.allclose(whole.logprobs[3:, :4], parts.logprobs[3:, :4], atol=1e-6)
    assert parts.mask.sum(1).tolist() == [9] * 3 + [4] * 3 and parts.truncated.all()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([np.nan, 0.5], "numbers from 0.5 to 0.5"),
        ([1.0, 0.5], "numbers from 0.5 to 1"),
        ([0.5, -0.1], "numbers from -0.1 to 0.5"),
        ([0.5, np.nan, 0.25], "numbers from 0.25 to 0.5"),
        ([np.nan, np.nan], "only NaN"),
    ],
)
def test_uniforms_have_no_hole(wrong, said):
    policy = load_policy("pocket-6x6", device="cpu")
    with pytest.raises(
        ValueError, match=f"^uniforms has {said}: .*NaN only after the last number of a rollout$"
    ):
        policy.sample([Prompt(symbols="<maze>")], np.array([[wrong]]))


def test_the_view_samples_what_the_models_own_forward_samples(model):
    uniforms = np.random.default_rng(8).random((2, 3, 9))
    own = sample_tokens(model, PROMPTS, uniforms, eos_ids={2}, pad_id=0)
    fast = sample(model, PROMPTS, uniforms)
    assert torch.equal(own.tokens, fast.tokens)
    assert torch.allclose(own.logprobs, fast.logprobs, atol=1e-4)
