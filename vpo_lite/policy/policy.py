"""The policy: a causal language model, a LoRA adapter that is trained, and a tokenizer.

With the adapter switched off the model is the reference policy, so no second model is loaded.
"""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from ..checks import LARGEST, check_choice, check_number, check_whole, shown
from ..tasks.base import Prompt, TaskError
from ..tasks.wording import begun_in_thought
from . import DTYPES
from .adapter import AdapterCard, fingerprint, save_adapter
from .decoder import decoder_for
from .libraries import PeftModel
from .positions import most_positions_of, positions_of
from .sampling import Rollouts, completion_logits, pad_prompts, sample_tokens, shares_prompts
from .scores import TokenScores, token_scores
from .tokenizer import decode, encode, opens_thought


@dataclass
class Policy:
    """A causal language model with one LoRA adapter. Make one with ``load_policy``.

    - model: the peft model
    - tokenizer: of transformers
    - base: what the model was built on: a shipped name, a folder or a hub NAME[@REVISION]
    - pocket: what a pocket policy says of itself: ``task``, ``answers`` (most answers in one
      rollout), and what else its task needs. None for a model that is asked in words.
    - dtype, load_in: how the base was asked for; a saved adapter remembers both
    - checkpointing: whether the layers are recomputed in the backward pass
    - weight_in_prompt: whether it was trained on prompts that show weights; None where the files of
      its adapter do not say so
    """

    model: PeftModel = field(repr=False)  # pages of layers
    tokenizer: object = field(repr=False)
    base: str
    pocket: dict | None
    dtype: str = "auto"
    load_in: str | None = None
    checkpointing: bool = False
    weight_in_prompt: bool | None = False

    @functools.cached_property
    def fingerprint(self) -> str | None:
        """Of the base's parameters (:func:`.adapter.fingerprint`); all of them are read, once."""
        return fingerprint(self.base)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def shares_prompts(self) -> bool:
        """Whether an update runs each prompt once for all its rollouts.

        Layers that are recomputed need whole rows.
        """
        return not self.checkpointing and shares_prompts(self.model)

    @property
    def eos_ids(self) -> set[int]:
        """Every token that ends a completion: the tokenizer's EOS and the generation settings'."""
        listed = self.model.generation_config.eos_token_id
        listed = [] if listed is None else [listed] if isinstance(listed, int) else listed
        return {int(i) for i in (*listed, self.tokenizer.eos_token_id) if i is not None}

    @property
    def embedded(self) -> int:
        """How many tokens have a row in the embedding. The tokenizer may know more, or fewer."""
        return self.model.get_input_embeddings().weight.shape[0]

    @property
    def pad_id(self) -> int:
        ids = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, *sorted(self.eos_ids))
        return next(i for i in ids if i is not None and i < self.embedded)

    @property
    def unheeded_end(self) -> str | None:
        """The special token after an answer in the chat template, if it ends no completion.

        Such a model writes on after its turn. None: the template's end is heeded, or there is none.
        """
        turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]
        if not self.tokenizer.chat_template:
            return None
        try:
            text = self.tokenizer.apply_chat_template(turns, tokenize=False)
        except Exception:  # a template that takes other conversations
            return None
        after = self.tokenizer(text.rpartition("!")[2], add_special_tokens=False)["input_ids"]
        special = [i for i in after if i in self.tokenizer.added_tokens_decoder]
        heeded = not special or special[0] in self.eos_ids
        return None if heeded else self.tokenizer.convert_ids_to_tokens(special[0])

    @property
    def positions(self) -> int | None:
        """Tokens of a prompt and its completion that the model was made for; None: it says none."""
        return positions_of(self.model.config)

    @property
    def most_positions(self) -> int | None:
        """Positions that can be computed; None: without an end, as usual rotary ones are."""
        return most_positions_of(self.model.config)

    def check_room(self, prompt: int, new: int) -> None:
        """Raise TaskError where a prompt and the tokens after it exceed the model's positions."""
        most = self.most_positions
        if most and prompt + new > most:
            raise TaskError(
                f"a prompt of {prompt:,} tokens and {new:,} new ones need more than the model's "
                f"{most:,} positions: lower max_new_tokens, shorten the request, or choose another "
                "model"
            )

    def encode(self, prompt: Prompt) -> list[int]:
        """Token ids of a prompt, its prefix included (:func:`vpo_lite.policy.tokenizer.encode`).

        Raises: ValueError, also for a token without a row in the embedding.
        """
        ids = encode(self.tokenizer, prompt)
        if (highest := max(ids)) >= self.embedded:
            token = self.tokenizer.convert_ids_to_tokens(highest)
            raise ValueError(
                f"the prompt holds the token {shown(token)}, which the model does not embed; cure: "
                "model.resize_token_embeddings(len(tokenizer)), then save the model again"
            )
        return ids

    def sample(
        self,
        prompts: Sequence[Prompt],
        uniforms,
        temperature: float = 1.0,
        *,
        stop: str | None = None,
        dtype: str = "auto",
        compiled: bool = False,
        at_once: int | None = None,
    ) -> Rollouts:
        """G rollouts for each of P prompts.

        - uniforms (P, G, T): in [0, 1), one for each token that a rollout may have at most; NaN
          behind them
        - temperature: divides the logits, above 0
        - stop: a token that ends a rollout, too; unlike EOS it stays in the text
        - dtype: to compute in: "float32", "bfloat16", or "auto" for the model's own
        - compiled: through torch.compile, where the fast view knows the model
        - at_once: most rollouts that are sampled at a time, which takes less memory; None for all.
          They are the same whatever it is, up to the rounding of the logits.

        Raises: ValueError for what has not these types and shapes; TaskError, as :meth:`encode` and
        :meth:`check_room`.
        """
        _check_asked(prompts, uniforms)
        check_number(temperature, "temperature", "a number of at least 1e-6", 1e-6, LARGEST)
        check_choice(dtype, "dtype", DTYPES)
        if at_once is not None:
            check_whole(at_once, "at_once")
        self.model.eval()
        number = None if dtype == "auto" else getattr(torch, dtype)
        stops = set() if stop is None else {self.token_id(stop)}
        asked = [self.encode(prompt) for prompt in prompts]
        self.check_room(max(map(len, asked)), uniforms.shape[-1])
        forward = decoder_for(self.model, dtype=number, compiled=compiled)
        how = dict(eos_ids=self.eos_ids | stops, pad_id=self.pad_id, temperature=temperature)
        groups, copies = uniforms.shape[:2]
        parts = []  # a comprehension is a closure before Python 3.12, and would keep the cache
        for p, g in _parts(groups, copies, at_once or groups * copies):
            part = sample_tokens(self.model, asked[p], uniforms[p, g], forward=forward, **how)
            parts.append(part)
        if len(parts) == 1:
            return parts[0]
        return Rollouts.joined(parts, pad_prompts(asked, self.pad_id, self.device), self.pad_id)

    def token_id(self, word: str) -> int:
        """The id of a token. Raises ValueError where the policy has none of this name."""
        vocabulary = self.tokenizer.get_vocab()
        if word not in vocabulary:
            raise ValueError(f"stop = {shown(word)}: is no token of this policy")
        return vocabulary[word]

    def texts(self, rollouts: Rollouts, prompts: Sequence[Prompt] = ()) -> list[str]:
        """The sampled tokens (B) as text, without padding and EOS, without a prompt's prefix.

        prompts: the P prompts that the rollouts continue. A text is read behind its prefix in
        words (:func:`vpo_lite.policy.tokenizer.decode`). Where the chat template opened a thought,
        and a text does not close it, the text begins with ``<think>``.
        """
        pairs = zip(rollouts.tokens.tolist(), rollouts.mask.sum(-1).tolist(), strict=True)
        begun = ["" if prompt.symbols else prompt.prefix for prompt in prompts]
        prefixes = [begun[p] for p in rollouts.prompt_of.tolist()] if any(begun) else None
        return self.read([row[:used] for row, used in pairs], prefixes)

    def read(
        self, rows: Sequence[Sequence[int]], prefixes: Sequence[str] | None = None
    ) -> list[str]:
        """The token ids (B) of completions as text, as :meth:`texts`. Special tokens but EOS stay:
        a tokenizer may have an answer's tags or the marks of thoughts among them.
        """
        ends = self.eos_ids
        rows = [[t for t in row if t not in ends] for row in rows]
        texts = decode(self.tokenizer, rows, prefixes)
        return [*map(begun_in_thought, texts)] if self.opens_thought else texts

    @functools.cached_property
    def opens_thought(self) -> bool:
        """See :func:`.tokenizer.opens_thought`."""
        return self.pocket is None and opens_thought(self.tokenizer)

    def token_logprobs(
        self, rollouts: Rollouts, temperature: float = 1.0, *, entropy_gradient: bool = False
    ) -> TokenScores:
        """Log-probabilities and entropies of the sampled tokens. The former carry gradients.

        They are those of the distribution that was sampled: the temperature divides the logits.
        ``entropy_gradient``: the entropies carry gradients, too.
        """
        logits = completion_logits(self.model, rollouts, share=self.shares_prompts)
        return token_scores(logits, rollouts.tokens, temperature, entropy_gradient=entropy_gradient)

    @torch.no_grad()
    def next_logprobs(
        self, prompts: Sequence[Prompt], beginnings: Sequence[Sequence[Sequence[int]]]
    ) -> list[torch.Tensor]:
        """Log-probabilities of every token that may come next, in nats: P tensors (n, V).

        - beginnings: for each of the P prompts n lists of token ids that continue it, n >= 1. An
          empty list stands for the prompt alone. n may differ from prompt to prompt.
        """
        self.model.eval()
        counts = [len(group) for group in beginnings]
        rows = [list(ids) for group in beginnings for ids in group]
        of_row = [p for p, count in enumerate(counts) for _ in range(count)]
        lengths = [len(ids) for ids in rows]
        ends = torch.tensor(lengths, device=self.device)
        longest = max(lengths) + 1  # the last token of a row is not read
        padded = [ids + [self.pad_id] * (longest - len(ids)) for ids in rows]
        places = torch.arange(longest, device=self.device)
        logits = completion_logits(
            self.model,
            Rollouts(
                *pad_prompts([self.encode(prompt) for prompt in prompts], self.pad_id, self.device),
                prompt_of=torch.tensor(of_row, device=self.device),
                tokens=torch.tensor(padded, device=self.device),
                mask=places <= ends[:, None],
                logprobs=torch.zeros(len(rows), longest, device=self.device),
                truncated=torch.zeros(len(rows), dtype=torch.bool, device=self.device),
            ),
            share=self.shares_prompts,
        )
        after = logits[torch.arange(len(rows), device=self.device), ends]
        return list(torch.log_softmax(after.float(), -1).split(counts))

    @contextlib.contextmanager
    def reference(self):
        """Inside, the adapter is switched off: the model is the reference policy. No gradients."""
        with torch.no_grad(), self.model.disable_adapter():
            yield

    def save(self, path) -> Path:
        """Write the adapter (safetensors and JSON) to the folder ``path``, whole or not at all.

        An older adapter there is replaced. Raises: ValueError for a path that holds anything else.
        """
        card = AdapterCard(
            base=self.base,
            fingerprint=self.fingerprint,
            dtype=self.dtype,
            load_in=self.load_in,
            weight_in_prompt=self.weight_in_prompt,
        )
        return save_adapter(self.model, card, path)


def _parts(groups: int, copies: int, at_once: int) -> Iterator[tuple[slice, slice]]:
    """Cuts P groups of G rollouts into parts of ``at_once`` rollouts at most: whole groups, or
    rollouts of one group.

    >>> [(p.start, p.stop, g.start, g.stop) for p, g in _parts(3, 4, 8)]
    [(0, 2, 0, 4), (2, 4, 0, 4)]
    >>> [(p.start, g.start, g.stop) for p, g in _parts(1, 4, 3)]
    [(0, 0, 3), (0, 3, 6)]
    """
    prompts, rollouts = max(1, at_once // copies), min(at_once, copies)
    for p in range(0, groups, prompts):
        for g in range(0, copies, rollouts):
            yield slice(p, p + prompts), slice(g, g + rollouts)


def _check_asked(prompts: Sequence[Prompt], uniforms) -> None:
    """ValueError for prompts and uniforms that do not belong together."""
    texts = [prompts] if isinstance(prompts, str) else [x for x in prompts if isinstance(x, str)]
    if texts or not len(prompts):
        given = f"prompts holds the text {shown(texts[0])}" if texts else "prompts is empty"
        raise ValueError(f"{given}: expected a list of Prompt, such as [Prompt.words('Hello')]")
    shape = tuple(getattr(uniforms, "shape", ()))
    if len(shape) != 3 or shape[0] != len(prompts) or 0 in shape:
        raise ValueError(
            f"uniforms of shape {shape} for {len(prompts)} prompts: expected an array (P, G, T) = "
            f"({len(prompts)}, rollouts of each prompt, most tokens)"
        )
    if isinstance(uniforms, np.ndarray):
        inside = (uniforms >= 0) & (uniforms < 1)
        first = np.arange(shape[-1]) < np.maximum(inside.sum(-1, keepdims=True), 1)
        if (inside != first).any() or not (inside | np.isnan(uniforms)).all():
            known = uniforms[~np.isnan(uniforms)]
            span = f"numbers from {known.min():g} to {known.max():g}" if known.size else "only NaN"
            raise ValueError(
                f"uniforms has {span}: expected at least 0 and below 1, NaN only after the last "
                "number of a rollout"
            )
