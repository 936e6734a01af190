"""The parts of `make gpu` in small on the second device: they mix no devices either."""

import importlib
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
GPU = Path(__file__).parents[1] / "gpu"
PARTS = {
    "correctness": "logits sampler update steps attention bf16 nan stated_memory",
    "speed": "rollouts step_time",
    "effect": "demo",
}


@pytest.mark.parametrize(
    "group, part", [(group, part) for group, parts in PARTS.items() for part in parts.split()]
)
def test_a_part_of_make_gpu(group, part, device, on_twin, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(GPU)
    monkeypatch.syspath_prepend(GPU.parent / "benchmarks")
    here = importlib.import_module("here").Here(device, True, tmp_path)
    assert "said" in getattr(importlib.import_module(group), part)(here)
