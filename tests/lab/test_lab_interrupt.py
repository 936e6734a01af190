"""The interrupt of a notebook's kernel reaches training, which runs in a thread of that kernel."""

import pytest
from jupyter_client.manager import start_new_kernel
from lab_harness import WAIT, until

pytestmark = pytest.mark.slow
BEGIN = """
from vpo_lite.lab import Lab
lab = Lab(steps=100_000, prompts=1, group_size=4)
lab.train()
"""
LONG = "import time\nprint(1, flush=True)\nwhile True: time.sleep(0.01)"


@pytest.fixture
def kernel():
    manager, client = start_new_kernel()
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def said(client, code):
    """What the code prints."""
    out = []

    def hear(message):
        content = message["content"]
        out.append(content.get("text") or content.get("ename") or "")

    client.execute_interactive(code, timeout=WAIT, output_hook=hear)
    return "".join(out).strip()


def test_an_interrupt_between_two_cells_stops_training_and_one_in_a_cell_the_cell(kernel):
    manager, client = kernel
    assert said(client, BEGIN) == ""
    assert until(lambda: said(client, "print(len(lab.records) > 1)") == "True")
    assert said(client, "print(lab.state)") == "running"

    client.execute(LONG, stop_on_error=False)  # else the kernel may drop the next request
    while client.get_iopub_msg(timeout=WAIT)["msg_type"] != "stream":
        pass
    manager.interrupt_kernel()
    assert client.get_shell_msg(timeout=WAIT)["content"]["ename"] == "KeyboardInterrupt"
    assert said(client, "print(lab.state)") == "running"

    def interrupted():  # the handler may come a moment after the cell
        manager.interrupt_kernel()
        return said(client, "print(lab.state)") in ("stopping", "stopped")

    assert until(interrupted)
    assert said(client, f"print(lab.join({WAIT}), lab.state, lab.last_error)") == (
        "True stopped None"
    )
    manager.interrupt_kernel()  # nothing trains: nothing happens
    assert said(client, "print(lab.state)") == "stopped"
