"""A run on the device ends where it ends on the CPU, and how fast a real one learns."""

import json
import time

from here import ROOT, Here

from vpo_lite import TrainConfig, evaluate
from vpo_lite.studies.measure import measure
from vpo_lite.training.learner import Learner
from vpo_lite.training.loop import train


def demo(here: Here) -> dict:
    """Preset demo on mazes of its table in notebooks/REFERENCE.md. Runs drift apart from the first
    draw that is rounded differently, so their ends are compared as means, within 0.05.
    """
    study = ROOT / "tests" / "benchmarks" / "results" / "demo_study.json"
    stored, mazes = (
        json.loads(study.read_text())["mazes"],
        range(1000, 1001 if here.small else 1005),
    )
    sizes = dict(steps=1, prompts=1, group_size=4) if here.small else {}
    found, expected, seconds = {}, {}, []
    for maze in mazes:
        config = TrainConfig.preset("demo", maze_seed=maze, device=str(here.device), **sizes)
        learner, started = Learner(config), time.perf_counter()
        for _ in train(config, learner=learner):
            pass
        seconds.append(time.perf_counter() - started)
        found[maze] = evaluate(learner.policy, config)["coverage"]
        expected[maze] = stored[str(maze)]["vpo"]["coverage"]
    ours, cpu = (sum(values.values()) / len(mazes) for values in (found, expected))
    if not here.small:
        assert abs(ours - cpu) <= 0.05, f"coverage {ours:.3f}, on the CPU {cpu:.3f}: {found}"
    return {
        "coverage": found,
        "coverage_cpu": expected,
        "seconds_a_run": [round(s, 1) for s in seconds],
        "said": f"coverage {ours:.3f}, on the CPU {cpu:.3f}; {min(seconds):.1f} s a run",
    }


def learning(here: Here) -> dict:
    """Preset gpu on many mazes of paper-9x9 for five minutes: any@30 against time.

    any@30 is best@30 under 50 held-out preferences, on held-out mazes. The clock stands still while
    it is measured, but the five minutes do not.
    """
    limit, every, problems = (0, 0, 2) if here.small else (here.learn, here.learn / 6, 32)
    sizes = dict(prompts=1, group_size=4) if here.small else {}
    config = TrainConfig.preset(
        "gpu", layout="paper-9x9", device=str(here.device), steps=10**6, **sizes
    )
    learner = Learner(config)
    seeds, points = learner.task.seeds["held_out"][:problems], []
    trained, rolling, tokens = 0.0, 0.0, 0

    def point(steps):
        rows = measure(learner.policy, learner.task, config, seeds)
        mean = {name: float(rows[name].mean()) for name in ("coverage", "diversity", "valid")}
        curves = {
            "any@30": float(rows["any"][:, 29].mean()),
            "best@1": float(rows["best"][:, 0].mean()),
        }
        points.append(
            {"steps": steps, "seconds": round(trained, 1), "tokens": tokens, **mean, **curves}
        )
        here.keep({"points": points})
        print(json.dumps(points[-1]), flush=True)

    point(0)
    began = time.perf_counter()
    for record in train(config, learner=learner):
        trained, tokens = trained + record.seconds, tokens + record.tokens
        rolling += record.rollout_seconds
        over = time.perf_counter() - began >= limit
        if over or trained >= every * len(points):
            point(record.step)
        if over:
            break
    first, last = points[0], points[-1]
    return {
        "points": points,
        "rollout_share": round(rolling / trained, 3),  # sampling, parsing, scoring
        "said": f"any@30 {first['any@30']:.3f} to {last['any@30']:.3f}, coverage "
        f"{first['coverage']:.3f} to {last['coverage']:.3f}, {last['steps']} steps in "
        f"{last['seconds']:.0f} s",
    }
