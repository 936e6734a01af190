"""``vpo-lite``: lab | train | evaluate | compare | pretrain | doctor.

Exit status 0, 1 (it failed while working) or 2 (the request was wrong: one line on stderr, nothing written).
"""

import argparse
import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import shutil
import signal
import sys
import time
from pathlib import Path

from . import __version__

ROOT = Path(__file__).resolve().parent.parent


class Wrong(ValueError):
    """The request was wrong; the message names the value and the cure."""


class _Parser(argparse.ArgumentParser):
    def error(self, message):  # one line, no usage block
        raise Wrong(f"{message} (see `{self.prog} --help`)")


def main(arguments=None) -> int:
    """Run one command; returns the exit status."""
    try:
        options = _parser().parse_args(arguments)
        return options.run(options) or 0
    except Wrong as error:
        return _say(error, 2)
    except KeyboardInterrupt:
        return _say("stopped", 1)
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (RuntimeError, OSError, ValueError, MemoryError) as error:
        return _say(error or type(error).__name__, 1)


def _say(message, status: int) -> int:
    print("vpo-lite: " + " ".join(str(message).split()), file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="vpo-lite", description="Learn, try and teach Vector Policy Optimization (VPO).")
    parser.add_argument("--version", action="version", version=f"vpo_lite {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)

    train = commands.add_parser("train", help="train a LoRA policy, leave a run folder", description=(
        "Train a LoRA policy and leave a run folder. Settings not given come from the preset."))  # fmt: skip
    train.set_defaults(run=_train)
    add = train.add_argument
    add("--preset", metavar="NAME", help="demo, laptop, gpu or paper (default: demo)")
    add("--out", type=Path, metavar="FOLDER", help="where the run goes (default: runs/TIME)")
    add("--resume", type=Path, metavar="FOLDER", help="go on with this run; everything else comes from it")
    add("--method", metavar="NAME", help="vpo, grpo, multi_rlvr, ...")
    add("--task", metavar="NAME", help="maze")
    add("--layout", metavar="NAME", help="preset of the mazes, lite-6x6 by default")
    add("--maze-seed", type=_whole, metavar="N", help="train on this one maze; without it, on many")
    add("--maze", type=Path, metavar="FILE", help="train on the maze drawn in this text file")
    add("--reward-mode", metavar="MODE", help="linear or convex_bonus")
    add("--model", metavar="NAME", help="pocket-6x6, a folder with a Hugging Face model, or a hub name")
    add("--m", type=_whole, metavar="N", help="answers in one rollout")
    add("--set-size", type=_whole, metavar="N", help="single answers in a compared set")
    add("--K", type=_weights, metavar="N", help="weights per prompt group, or inf")
    add("--alpha", type=_number, metavar="X", help="Dirichlet concentration")
    add("--k", type=_whole, metavar="N", help="of max_at_k")
    add("--steps", type=_whole, metavar="N")
    add("--prompts", type=_whole, metavar="P", help="prompts in a step")
    add("--group-size", type=_whole, metavar="G", help="rollouts of one prompt")
    add("--epochs", type=_whole, metavar="N", help="passes over each step's rollouts")
    add("--lr", type=_number, metavar="X")
    add("--rank", type=_whole, metavar="N", help="of LoRA")
    add("--lora-alpha", type=_whole, metavar="N")
    add("--kl", type=_number, metavar="X", help="coefficient of the KL to the reference, 0 only reports it")
    add("--aggregation", metavar="NAME", help="of tokens in the loss: token, sequence or constant")
    add("--micro-batch", type=_whole, metavar="N", help="rollouts in one forward pass: less memory, the same gradient")
    add("--temperature", type=_number, metavar="X")
    add("--max-new-tokens", type=_whole, metavar="N")
    add("--dtype", metavar="NAME", help="of the base weights: auto, bfloat16 or float32")
    add("--load-in", metavar="BITS", help="quantise the base weights: 8bit or 4bit (needs bitsandbytes)")
    add("--rollout-dtype", metavar="NAME", help="that sampling counts in: auto (the weights'), bfloat16 or float32")
    add("--compile", action="store_true", default=None, help="sample through torch.compile: for runs of many minutes")
    add("--gradient-checkpointing", action="store_true", default=None, help="less memory, more time, the same gradient")
    add("--seed", type=_whole, metavar="N")
    add("--device", metavar="NAME", help="auto, cpu or cuda")
    add("--threads", type=_whole, metavar="N", help="of torch on the CPU")
    add("--save-every", type=_whole, metavar="N", help="steps between two states to resume from")
    add("--json", action="store_true", help="print the summary as JSON, no bar, no table")

    evaluate = commands.add_parser("evaluate", help="measure a run's policy again")
    evaluate.set_defaults(run=_evaluate)
    evaluate.add_argument("folder", type=Path, metavar="RUN")
    evaluate.add_argument("--mazes", type=_whole, default=64, metavar="N", help="held-out mazes (default: 64)")
    evaluate.add_argument("--answers", type=_whole, default=30, metavar="N", help="answers per maze (default: 30)")
    evaluate.add_argument("--seed", type=_whole, metavar="N", help="of the answers (default: the run's own)")
    evaluate.add_argument("--device", default="auto", metavar="NAME")
    evaluate.add_argument("--json", action="store_true")

    compare = commands.add_parser("compare", help="a table of several runs, means by method")
    compare.set_defaults(run=_compare)
    compare.add_argument("folders", nargs="+", type=Path, metavar="RUN")
    compare.add_argument("--html", type=Path, metavar="FILE", help="write a report with curves that opens offline, too")
    compare.add_argument("--json", action="store_true")

    pretrain = commands.add_parser("pretrain", help="make the pocket policy from a seed")
    pretrain.set_defaults(run=_pretrain)
    pretrain.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="goes on where it stopped")
    pretrain.add_argument("--layout", metavar="NAME")
    pretrain.add_argument("--updates", type=_whole, metavar="N")
    pretrain.add_argument("--batch", type=_whole, metavar="N")
    pretrain.add_argument("--mazes", type=_whole, metavar="N", help="different mazes to learn from")
    pretrain.add_argument("--smaller-share", type=_number, metavar="X", help="share of batches from presets of smaller boards")
    for name in ("width", "layers", "heads", "mlp"):
        pretrain.add_argument(f"--{name}", type=_whole, metavar="N", help="of the model")
    pretrain.add_argument("--lr", type=_number, metavar="X")
    pretrain.add_argument("--seed", type=_whole, metavar="N")
    pretrain.add_argument("--device", default="auto", metavar="NAME")
    pretrain.add_argument("--threads", type=_whole, metavar="N")
    pretrain.add_argument("--workers", type=_whole, default=1, metavar="N", help="processes that draw demonstrations")
    pretrain.add_argument("--compile", action="store_true", help="through torch.compile (needs a C++ compiler)")

    doctor = commands.add_parser("doctor", help="what was found on this machine, what is missing, and the cure")
    doctor.set_defaults(run=_doctor)

    lab = commands.add_parser("lab", help="open the notebooks in JupyterLab")
    lab.set_defaults(run=_lab)
    lab.add_argument("--port", type=_whole, default=8888, metavar="N", help="the next free one is taken")
    lab.add_argument("--browser", choices=("auto", "yes", "no"), default="auto", help="open a browser window")
    return parser


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


def _weights(text: str):
    return math.inf if text == "inf" else _whole(text)


# --- train, evaluate, compare -----------------------------------------------------------------------------------------

_NOT_SETTINGS = {"run", "command", "preset", "out", "resume", "json", "maze"}


def _train(options) -> int:
    given = {k: v for k, v in vars(options).items() if v is not None and k not in _NOT_SETTINGS}
    with _requests():
        from .training.config import TrainConfig
        from .training.runs import RunFolder
        from .training.step import Learner

        if options.resume:
            beside = [k for k in ("out", "maze", "preset") if getattr(options, k)]
            if given or beside:
                extra = ", ".join(sorted([*given, *beside]))
                raise Wrong(f"--resume {options.resume}: everything else comes from the run; leave out {extra}")
            folder = RunFolder.open(options.resume)
            config = folder.config()
            if folder.finished:
                raise Wrong(f"--resume {options.resume}: this run is finished ({config.steps} steps)")
        else:
            if options.maze:
                given["maze"] = _maze_text(options.maze)
            config = TrainConfig.preset(options.preset or "demo", **given)
        learner = Learner(config)  # before the folder is made: a model that is not there leaves nothing behind
        config = _fitted(learner, config)
        if not options.resume:
            folder = RunFolder.create(options.out or Path("runs") / time.strftime("%Y%m%d-%H%M%S"), config)
        first = folder.restore(learner)
    try:
        return _run(folder, config, learner, first, options.json)
    except KeyboardInterrupt:
        return _say(f"stopped; go on with: vpo-lite train --resume {folder.path}", 1)


def _run(folder, config, learner, first: int, as_json: bool) -> int:
    from tqdm import tqdm

    from .training.evaluate import evaluate, table
    from .training.loop import train
    from .training.runs import write_json

    started = time.perf_counter()
    _state_memory(learner, config, quiet=as_json)
    before = folder.path / "start.json"
    if not before.exists():
        with learner.policy.reference():  # a fresh adapter changes nothing, so this is the policy before training
            write_json(before, evaluate(learner.policy, config, seed=config.seed, task=learner.task))
        _warn_of_unread_answers(learner, config, json.loads(before.read_text()))
    bar = tqdm(total=config.steps, initial=first, unit="step", disable=as_json, dynamic_ncols=True, file=sys.stderr)
    with bar, _patient() as asked_to_stop:
        for record in train(config, learner=learner, first_step=first):
            folder.append(record)
            if record.step % config.save_every == 0 or record.step == config.steps or asked_to_stop:
                folder.save(learner, record.step)
            bar.update()
            bar.set_postfix_str(_short(record))
            if asked_to_stop and record.step < config.steps:
                bar.close()
                return _say(f"stopped after step {record.step}; go on with: vpo-lite train --resume {folder.path}", 1)
    records = folder.records()
    seconds = sum(r["seconds"] for r in records)
    summary = {
        "method": config.method, "steps": config.steps, "seconds": round(seconds, 3),
        "rollout_share": round(sum(r["rollout_seconds"] for r in records) / seconds, 4),
        **evaluate(learner.policy, config, seed=config.seed, task=learner.task),
        "start": json.loads(before.read_text()),
        "device": str(learner.policy.device), "versions": _versions("vpo_lite", "torch", "transformers", "peft"),
    }  # fmt: skip
    folder.finish(learner, summary)
    before.unlink()
    if as_json:
        print(json.dumps(summary))
        return 0
    print(table([summary | {"set": config.compared_size}]))
    print(
        f"{config.steps} steps in {seconds:.1f} s ({config.steps / seconds:.2f} a second, {summary['rollout_share']:.0%} of it "
        f"sampling) on {summary['device']}; {time.perf_counter() - started:.1f} s in all. Written to {folder.path}"
    )
    return 0


def _fitted(learner, config):
    from .training.memory import available_memory, fitted

    found = available_memory(learner.policy.device)
    return fitted(learner.policy, config, found, learner.task) if found else config


def _state_memory(learner, config, quiet: bool) -> None:
    """One line before training: what it will need and what there is; louder, with the cures, where that is not enough."""
    from .training.memory import available_memory, cures, memory_needed, size

    need, found = memory_needed(learner.policy, config, learner.task), available_memory(learner.policy.device)
    line = f"memory: {need}" + (f"; {size(found)} available on {learner.policy.device}" if found else "")
    line += f"; {config.micro_batch} rollouts in one forward pass" if config.micro_batch else ""
    if found and need.peak > found:
        _say(f"{line}: this may not be enough; {', or '.join(cures(need, config))}", 0)
    elif not quiet:
        print(line, file=sys.stderr)


def _warn_of_unread_answers(learner, config, start: dict) -> None:
    """A model that does not write the format earns nothing whatever it does, and no method can begin."""
    if learner.policy.board is None and start["parse_rate"] < 0.1:
        _say(
            f"before training, {start['parse_rate']:.1%} of the answers of {config.base_model} could be read: it rarely writes "
            "the asked-for form, so there is nothing to reinforce yet; try an instruct model or a larger one, supervised "
            "fine-tuning on the form first, or more max_new_tokens "
            f"({config.max_new_tokens or 'as the task asks'}; it wrote {start['tokens_per_answer']:.0f} tokens an answer)", 0
        )  # fmt: skip


@contextlib.contextmanager
def _patient():
    """Ctrl-C finishes the step: yields a list that is non-empty once it was pressed; a second one stops at once."""
    asked = []

    def ask(signum, frame):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        asked.append(signum)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def _short(record) -> str:
    seen = {"coverage": record.coverage, "set reward": record.set_reward, "reach": record.reach_rate}
    return ", ".join(f"{k} {v:.2f}" for k, v in seen.items() if v is not None)


def _maze_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Wrong(f"--maze {path}: cannot be read as text ({getattr(error, 'strerror', None) or error})") from error


def _evaluate(options) -> int:
    with _requests():
        from .policy.model import load_policy
        from .training.evaluate import evaluate, table
        from .training.runs import RunFolder

        folder = RunFolder.open(options.folder)
        config = folder.config()
        if not folder.finished:
            raise Wrong(f"{options.folder}: not finished; go on with: vpo-lite train --resume {options.folder}")
        if options.mazes < 1 or options.answers < 1:
            raise Wrong(f"--mazes {options.mazes} --answers {options.answers}: both must be 1 or more")
        policy = load_policy(folder.path, device=options.device)
    seed = config.seed if options.seed is None else options.seed
    figures = evaluate(policy, config, mazes=options.mazes, answers=options.answers, seed=seed)
    print(json.dumps(figures) if options.json else table([figures | {"method": config.method, "set": config.compared_size}]))
    return 0


def _compare(options) -> int:
    with _requests():
        from .training.evaluate import compare, table

        rows = compare(options.folders)
        if options.html:
            from .report import write_report

            write_report(options.folders, options.html, rows)
    print(json.dumps(rows) if options.json else table(rows))
    return 0


# --- pretrain ---------------------------------------------------------------------------------------------------------


def _pretrain(options) -> int:
    with _requests():
        import torch
        from tqdm import tqdm

        from .policy.decoding import compiler_missing
        from .policy.model import choose_device
        from .training.pretrain import PretrainConfig, check_folder, finish, pretrain

        names = {f.name for f in dataclasses.fields(PretrainConfig)}
        config = PretrainConfig(**{k: v for k, v in vars(options).items() if k in names and v is not None})
        device = choose_device(options.device)
        if options.workers < 0 or (options.threads is not None and options.threads < 1):
            raise Wrong(f"--workers {options.workers} --threads {options.threads}: workers are 0 or more, threads 1 or more")
        if options.threads:
            torch.set_num_threads(options.threads)
        if options.compile and (missing := compiler_missing(device)):
            raise Wrong(f"--compile: {missing}; leave it out, or see to that")
        check_folder(config, options.out)
    loss, done = math.nan, 0
    try:
        with tqdm(total=config.updates, unit="update", dynamic_ncols=True) as bar:
            for done, now in pretrain(
                config, options.out, device=device, workers=options.workers, compile=options.compile
            ):
                loss = now if math.isnan(loss) else 0.98 * loss + 0.02 * now
                bar.update(done - bar.n)
                bar.set_postfix_str(f"loss {loss:.3f}")
    except KeyboardInterrupt:
        return _say(f"stopped after {done} updates; the same command goes on from the last saved one", 1)
    print(json.dumps(finish(config, options.out, device), indent=1))
    return 0


# --- doctor, lab ------------------------------------------------------------------------------------------------------


def _versions(*names: str) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = ""
    return found


def _doctor(options) -> int:
    """Print what training and the notebooks will meet; status 1 if something that they need is missing."""
    faults = []
    print(f"python {platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores")
    base = _versions("numpy", "scipy", "gymnasium", "moocore", "torch", "transformers", "peft", "safetensors", "tqdm")
    lab = _versions("jupyterlab", "ipykernel", "ipywidgets", "plotly", "anywidget")
    for title, found, cure in (("training", base, "pip install -e ."), ("notebooks", lab, 'pip install -e ".[lab]"')):
        print(f"{title}: " + ", ".join(f"{n} {v}" for n, v in found.items() if v))
        missing = [n for n, v in found.items() if not v]
        if missing:
            faults.append(f"missing for {title}: {', '.join(missing)}; cure: {cure}")
    if base["torch"]:
        import torch

        if torch.cuda.is_available():
            memory = torch.cuda.get_device_properties(0).total_memory / 2**30
            print(f"device: cuda, {torch.cuda.get_device_name(0)} with {memory:.0f} GiB")
        else:
            print("device: cpu (no GPU found; all that ships runs on it)")
        waiting = os.environ.get("OMP_WAIT_POLICY", "unset")
        print(f"threads: torch uses {torch.get_num_threads()} of {os.cpu_count()}, OMP_WAIT_POLICY {waiting}")
        try:
            from .policy.model import pocket_names

            print(f"pocket policies: {', '.join(pocket_names()) or 'none'}")
            if not pocket_names():
                faults.append("missing: the pocket policy's weights; cure: git checkout vpo_lite/policy/pocket")
        except ImportError as error:
            faults.append(f"{error}; cure: pip install -U -e .")
    import envs

    if not hasattr(envs, "generate"):
        faults.append(f"another package named envs shadows ours: {envs.__file__}; cure: start from another folder")
    browsers = [b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)]
    print(f"browser for the tests: {browsers[0] if browsers else 'none (only the browser tests need chromium)'}")
    for fault in faults:
        print(fault, file=sys.stderr)
    print("ready" if not faults else f"{len(faults)} thing(s) missing")
    return 1 if faults else 0


def _lab(options) -> int:
    """JupyterLab on the first notebook; prints the address. Works as root and without a display."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise Wrong('jupyterlab is not installed; cure, in the repository: pip install -e ".[lab]"')
    notebook = ROOT / "notebooks" / "00_start_here.ipynb"
    if not notebook.is_file():
        raise Wrong(f"{notebook}: not there; the notebooks live in the repository, clone it and run `make lab`")
    shown = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    browser = options.browser == "yes" or (options.browser == "auto" and bool(shown))
    command = [
        sys.executable, "-m", "jupyterlab", f"--port={options.port}", f"--ServerApp.root_dir={ROOT}", "--log-level=WARN",
        "--LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb",  # also in the address that is printed
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--LabApp.news_url=None",
    ]  # fmt: skip
    if not browser:
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    if os.name == "nt":
        import subprocess

        return subprocess.call(command)
    sys.stdout.flush()
    os.execv(sys.executable, command)
    return 0


class _requests:
    """Inside, a ValueError means that the request was wrong."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None and issubclass(kind, ValueError) and not issubclass(kind, Wrong):
            raise Wrong(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
