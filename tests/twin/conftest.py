"""The device's name is known to the whole process, so these tests run in one of their own."""

import re

import pytest
import twin

from vpo_lite import options
from vpo_lite.policy import loading
from vpo_lite.policy.threads import torch_threads


@pytest.fixture(scope="session")
def device():
    return twin.register()


@pytest.fixture
def on_twin(device, monkeypatch):
    """Settings may name the twin as their device. Yields what is counted there."""
    choose = loading.choose_device
    monkeypatch.setattr(
        loading,
        "choose_device",
        lambda name: device if str(name).startswith("twin") else choose(name),
    )
    monkeypatch.setattr(options, "DEVICE", re.compile(f"{options.DEVICE.pattern}|twin(:0)?"))
    with torch_threads(1), twin.Twin() as seen:
        yield seen
