"""Training on a second device, in a process of its own: torch forgets no device (twin/)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch.utils import backend_registration

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param("not long", marks=pytest.mark.slow),
        pytest.param("long", marks=pytest.mark.long),
    ],
)
@pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch has no backends in Python",
)
def test_everything_runs_on_a_second_device(chosen):
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-q", "-p", "no:xdist"]
    command += ["-m", chosen, "twin"]
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, env=own)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and " skipped" not in done.stdout
