"""The policies that ship: standard folders, and cards that tell what these weights do."""

import json
import math

import pytest
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from vpo_lite.policy.model import POCKET, pocket_names
from vpo_lite.training.pretrain import PretrainConfig, held_out_figures

NAMES = ("pocket-6x6", "pocket-9x9")


def test_both_are_there():
    assert tuple(pocket_names()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_card_tells_what_the_weights_do(name):
    """30 of its held-out mazes anew: within four standard errors of the card, for every preset that it speaks of."""
    about = json.loads((POCKET / name / "pretrain.json").read_text())
    config = PretrainConfig(**about["config"])
    model = AutoModelForCausalLM.from_pretrained(POCKET / name).eval()
    tokenizer = AutoTokenizer.from_pretrained(POCKET / name)
    assert (model.config.vpo_board, model.config.hidden_size) == (config.board, config.width)
    assert list(about["held_out"]) == config.layouts
    for layout, figures in about["held_out"].items():
        seen = held_out_figures(model, tokenizer, layout, seeds=range(100, 130), sizes=(3,), seed=1, board=config.board)["3"]
        for figure in ("reach", "distinct"):
            share = figures["3"][figure]
            assert abs(seen[figure] - share) < 4 * math.sqrt(share * (1 - share) / 30) + 0.02, (layout, figure)
    assert 0.25 < about["held_out"][config.layout]["3"]["treasure"] < 0.75  # undecided


@pytest.mark.parametrize("name", NAMES)
def test_it_is_small_safetensors_and_nothing_pickled(name):
    files = {path.name for path in (POCKET / name).iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "pretrain.json", "README.md"} <= files
    assert not {f for f in files if f.endswith((".bin", ".pt", ".pkl"))}
    weights = load_file(POCKET / name / "model.safetensors")
    size = sum(w.numel() * w.element_size() for w in weights.values())
    assert size < 8_000_000 and {str(w.dtype) for w in weights.values()} == {"torch.float32"}
