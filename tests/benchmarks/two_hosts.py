"""A run on TRL by two hosts of one computer: two network namespaces, joined by a virtual cable.

    sudo .venv/bin/python tests/benchmarks/two_hosts.py

Needs the extra `trl`, Linux, root and `ip` (iproute2). Each host has its own address, name and
loopback; both see the same files, as on a shared disk. Each starts the line of the reference, with
a rank of its own, and trains on the CPU. Writes tests/benchmarks/results/two_hosts.json:

- trained: whether the adapter is, bit for bit, that of two processes on one host
- killed: whether a run is, of which one host was killed and which both went on with; and the
  seconds until the other host ended
- refused: what each host says where one does not see the run folder, and the seconds until both
  had ended
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULT = Path(__file__).with_name("results") / "two_hosts.json"
HOSTS = {"vpo-a": "10.77.0.1", "vpo-b": "10.77.0.2"}
STEPS = 12
RUN = f"--engine trl --device cpu --maze-seed 1000 --steps {STEPS} --save-every 2 --out".split()
SETTINGS = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def ip(*words, check=True):
    subprocess.run(["ip", *words], check=check, capture_output=not check)


@contextlib.contextmanager
def cable():
    """Both hosts, joined; they are removed at the end."""
    remove_hosts()
    try:
        for host in HOSTS:
            ip("netns", "add", host)
            named = Path("/etc/netns", host)
            named.mkdir(parents=True)
            lines = ["127.0.0.1 localhost", *(f"{a} {name}" for name, a in HOSTS.items())]
            (named / "hosts").write_text("\n".join(lines) + "\n")
        first, second = HOSTS
        ip("link", "add", "end", "netns", first, "type", "veth", "peer", "end", "netns", second)
        for host, address in HOSTS.items():
            ip("-n", host, "addr", "add", f"{address}/24", "dev", "end")
            for device in ("lo", "end"):
                ip("-n", host, "link", "set", device, "up")
        yield
    finally:
        remove_hosts()


def remove_hosts():
    for host in HOSTS:
        kill(host)
        ip("netns", "del", host, check=False)
        shutil.rmtree(Path("/etc/netns", host), ignore_errors=True)


def kill(host):
    pids = subprocess.run(["ip", "netns", "pids", host], capture_output=True, text=True).stdout
    subprocess.run(["kill", "-9", *pids.split()], check=False, capture_output=True)


def start(host, arguments):
    """The launcher of a host, under its own name."""
    ranks = f"--num_machines 2 --machine_rank {list(HOSTS).index(host)} --num_processes 2"
    main = f"--main_process_ip {HOSTS['vpo-a']} --main_process_port 29500"
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu"]
    launch += [*ranks.split(), *main.split(), "-m", "vpo_lite.cli", "train", *arguments]
    named = ["ip", "netns", "exec", host, "unshare", "--uts", "sh", "-c"]
    return subprocess.Popen(
        [*named, f'hostname {host}; exec "$@"', "sh", *launch],
        env=SETTINGS,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def both(*arguments):
    """Run on both hosts to the end: (status, lines of ours on stderr) of each."""
    hosts = [start(host, asked) for host, asked in zip(HOSTS, arguments, strict=True)]
    said = [host.communicate(timeout=900)[1].splitlines() for host in hosts]
    return [
        (host.returncode, [line for line in lines if line.startswith("vpo-lite:")])
        for host, lines in zip(hosts, said, strict=True)
    ]


def done(asked):
    for status, said in both(asked, asked):
        assert status == 0, said


def adapter(run):
    return (run / "adapter" / "adapter_model.safetensors").read_bytes()


def steps_of(run):
    metrics = run / "metrics.jsonl"
    return len(metrics.read_text().splitlines()) if metrics.exists() else 0


def killed(run):
    """Seconds until the first host ended after the second was killed; the run is then gone on."""
    first, second = (start(host, [*RUN, str(run)]) for host in HOSTS)
    while steps_of(run) < 5:
        assert first.poll() is None, first.communicate()[1]
        time.sleep(0.2)
    kill("vpo-b")
    began = time.perf_counter()
    assert first.wait(timeout=900) != 0
    seconds = time.perf_counter() - began
    second.wait()
    assert steps_of(run) < STEPS
    done(["--resume", str(run)])
    return seconds


def main():
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None:
        sys.exit("two_hosts.py: needs Linux, root and ip (iproute2)")
    with tempfile.TemporaryDirectory(prefix="vpo-hosts-") as folder, cable():
        one, two, cut = (Path(folder, name) for name in ("one", "two", "cut"))
        alone = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "-m"]
        quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=SETTINGS, check=True)
        subprocess.run([*alone, "vpo_lite.cli", "train", *RUN, str(one)], **quiet)
        done([*RUN, str(two)])
        seconds = killed(cut)
        began = time.perf_counter()
        refused = both(
            *(["--resume", f"{cut}{more}", "--steps", "14"] for more in ("", "-elsewhere"))
        )
        waited = time.perf_counter() - began
        found = {
            "date": date.today().isoformat(),
            "versions": {name: version(name) for name in ("torch", "accelerate", "trl")},
            "steps": STEPS,
            "trained": {"as on one host": adapter(two) == adapter(one)},
            "killed": {
                "as on one host": adapter(cut) == adapter(one),
                "seconds until the other ended": round(seconds, 1),
            },
            "refused": {
                "status": [status for status, _ in refused],
                "said": [said[-1].replace(folder, "") for _, said in refused],
                "seconds": round(waited, 1),
            },
        }
    print(json.dumps(found, indent=1))
    RESULT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
