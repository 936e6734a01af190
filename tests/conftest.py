"""Shared by all tests: quiet threads, no network, one pocket policy per session."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is imported: spinning threads starve shared cores
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest


@pytest.fixture(scope="session")
def tiny_policy_folder(tmp_path_factory):
    """An untrained pocket model, a twentieth of the shipped one: for tests of mechanics, not of skill."""
    from vpo_lite.policy.tokenizer import pocket_tokenizer
    from vpo_lite.training.pretrain import PretrainConfig, new_model

    folder = tmp_path_factory.mktemp("models") / "tiny"
    new_model(PretrainConfig(width=32, layers=2, heads=2, mlp=48)).save_pretrained(folder)
    pocket_tokenizer(6).save_pretrained(folder)
    return folder
