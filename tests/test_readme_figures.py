"""The tables of README and REFERENCE tell what the stored studies found."""

import json
from pathlib import Path

import numpy as np
import pytest
from test_study_page import study_page

from vpo_lite.intervals import t_interval
from vpo_lite.studies import results, tables

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
REFERENCE = (ROOT / "notebooks" / "REFERENCE.md").read_text()
OTHER_TASKS = REFERENCE.partition("## What other tasks show")[2].partition("**On `chains`")[0]
RESULTS = ROOT / "tests" / "benchmarks" / "results"
ONE_VPO = "vpo, one problem"
MINIATURES = ("programs", "calls", "hops")


def stored(name):
    return [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text().splitlines()]


def cells(label):
    """The other cells of the table row that begins with this label."""
    (line,) = (line for line in OTHER_TASKS.splitlines() if line.startswith(f"| {label} |"))
    return [cell.strip().strip("*") for cell in line.split("|")[2:-1]]


def test_two_hosts_train_what_one_does():
    (row,) = (line for line in README.splitlines() if "benchmarks/two_hosts.py" in line)
    found = json.loads((RESULTS / "two_hosts.json").read_text())
    assert found["trained"]["as on one host"] and found["killed"]["as on one host"]
    assert row.endswith(f"| {found['date']} |") and "bit-equal" in row


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ("before training", "start, m = 3"),
        ("VPO, m = 3", "vpo"),
        ("GRPO, 3 x rollouts", "grpo, 3 x rollouts"),
        ("GRPO", "grpo"),
        ("Multi-RLVR, repeats earn nothing", "multi_rlvr"),
        ("Multi-RLVR, repeats paid", "multi_rlvr, repeats paid"),
        ("set_max", "set_max"),
        ("Max@k, 3 x rollouts", "max_at_k, 3 x rollouts"),
    ],
)
def test_coverage_of_each_method_on_each_task(label, kind):
    many, one = cells(label)[:3], cells(label)[3:]
    for task, cell, seeds in zip(MINIATURES, many, (3, 2, 3), strict=True):
        found = [row["coverage"] for row in stored(task) if row["run"][0] == kind]
        assert len(found) == (1 if kind.startswith("start") else seeds)
        assert cell == f"{np.mean(found):.2f}", (task, np.mean(found))
    for task, cell in zip(("calls", "hops"), one, strict=True):
        found = [row["coverage"] for row in stored(task) if row["run"][0] == f"{kind}, one problem"]
        assert cell == (f"{np.mean(found):.2f}" if found else ""), (task, np.mean(found))
        assert len(found) in (0, 4)


def test_the_best_single_answer_of_each_task():
    best = [stored(task)[0]["coverage_best_single"] for task in MINIATURES]
    for task in ("calls", "hops"):
        one = [row for row in stored(task) if row["run"][0] == "vpo, one problem"]
        best.append(np.mean([row["coverage_best_single"] for row in one]))
    assert cells("best single answer") == [f"{share:.2f}" for share in best]


def test_on_a_single_problem_vpo_covers_more_than_any_single_answer_could():
    one = [row for task in ("calls", "hops") for row in stored(task) if row["run"][0] == ONE_VPO]
    assert len(one) == 8 and all(row["coverage"] > row["coverage_best_single"] for row in one)
    others = ("grpo, 3 x rollouts, one problem", "multi_rlvr, repeats paid, one problem")
    ends = [row["diversity"] for row in stored("calls") if row["run"][0] in others]
    assert ends == [0] * 8
    best = [row["best_at_k"]["30"] for row in stored("programs") if "start" not in row["run"][0]]
    assert 0.375 <= min(best) and max(best) < 0.405


def test_what_more_steps_bring():
    found = {row["run"][0]: row for row in stored("hops") if row["run"][0].endswith("200 steps")}
    ours, single, paid = (
        found[f"{kind}, 200 steps"]["coverage"]
        for kind in ("vpo", "grpo, 3 x rollouts", "multi_rlvr, repeats paid")
    )
    told = f"VPO covers {ours:.3f}, GRPO with as many answers {single:.3f}, "
    told += f"Multi-RLVR with paid repeats {paid:.3f}"
    assert told in " ".join(OTHER_TASKS.split()), told


@pytest.mark.parametrize(
    ("label", "kind"),
    [("GRPO", "grpo"), ("Multi-RLVR", "multi_rlvr"), ("set_max", "set_max"), ("VPO", "vpo")],
)
def test_what_tables_of_probabilities_make_of_chains(label, kind):
    start = REFERENCE.index("| expected of a set of three |")
    line = next(x for x in REFERENCE[start:].splitlines() if x.startswith(f"| {label} |"))
    told = [float(cell.strip().strip("*")) for cell in line.split("|")[2:-1]]
    rows = stored("chains_tabular")
    mean = {
        (mode, goal): np.mean([row[goal] for row in rows if row["run"][:2] == [mode, kind]])
        for mode in ("independent", "spreading")
        for goal in ("set_reward", "best", "solved")
    }
    goals = [("independent", g) for g in ("set_reward", "best", "solved")]
    goals += [("spreading", "set_reward"), ("spreading", "solved")]
    assert np.allclose(told, [mean[goal] for goal in goals], atol=0.0051)


# --- the study, on the front page -----------------------------------------------------------------

HEADLINE = {
    "paper-9x9": "`paper-9x9`, mazes",
    "hard-8x8": "`hard-8x8`, mazes",
    "programs": "`programs`",
    "hops": "`hops`, questions",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HEADLINE)
def test_a_row_of_the_headline(name):
    """GRPO and VPO for one, three and thirty answers; in bold the one that is surely better, also
    if the rates were chosen anew, and for one answer also over all weights: under the uniform w* of
    mazes best@1 is that mean. Then the untrained policy, asked for one answer or for sets,
    whichever finds more."""
    study, folder = study_page.at_those_rates(name), results.SHIPPED / name
    found, cells = tables.means(study, folder), []
    for figure in ("any@1", "any@3", "any@30"):
        sure = study_page.lead(name, figure).sure
        if figure == "any@1" and sure:
            task = study_page.read(name).tuning("vpo")[0].config.make_task()
            assert len({*task.w_star(task.instance(task.seeds["held_out"][0]))}) == 1
            sure = study_page.lead(name, "best@1").sure
        for kind, ahead in (("grpo_x3", -1), ("vpo", 1)):
            told = f"{found[kind][figure]:.3f}"[1:]
            cells.append(f"**{told}**" if sure == ahead else told)
    untrained = max(found[kind]["any@30"] for kind in ("start_single", "start_set"))
    assert found["vpo"]["seeds"] == found["grpo_x3"]["seeds"]
    row = [HEADLINE[name], str(found["vpo"]["seeds"]), *cells, f"{untrained:.3f}"[1:]]
    assert f"| {' | '.join(row)} |" in README, row


@pytest.mark.slow
def test_the_leads_at_the_rates_of_five_runs_and_of_one():
    """How far VPO is ahead with thirty answers; what the untrained policy says."""
    told, leads, one_run = " ".join(README.split()), {}, {}
    gains = {}
    for name in ("programs", "hard-8x8", "paper-9x9"):
        study, folder = study_page.at_those_rates(name), results.SHIPPED / name
        leads[name] = tables.difference(study, folder, "vpo", "any@30")
        gains[name] = [
            all(
                tables.difference(study, folder, kind, "any@30", start).sure == 1
                for start in ("start_single", "start_set")
            )
            for kind in study_page.PAIR
        ]
        if name == "hard-8x8":
            rates = [results.chosen_rate(study, folder, kind) for kind in study_page.PAIR]
            lead, spread = study_page.at_pair(name, rates, "any@30", equal_tokens=True)
            at_tokens = lead, *t_interval(lead, [spread])
        of_five = results.chosen_rate(study, folder, "grpo_x3")
        study = study_page.read(name)
        assert of_five < results.chosen_rate(study, folder, "grpo_x3")
        one_run[name] = tables.difference(study, folder, "vpo", "any@30").mean
    assert {name for name, lead in leads.items() if lead.sure == 1} == {"hard-8x8", "paper-9x9"}
    anew = study_page.lead("hard-8x8", "any@30", equal_tokens=True)
    text = (
        "by {:.3f} on hard mazes, by {:.3f} on `paper-9x9`. At equal tokens it is {:.3f} on hard "
    )
    text += "mazes ({:.3f} to {:.3f}; rates chosen anew: {:.3f} to {:.3f})"
    text = text.format(leads["hard-8x8"].mean, leads["paper-9x9"].mean, *at_tokens, *anew[1:3])
    assert text.replace("0.", ".") in told, text
    assert gains == {"programs": [False] * 2, "hard-8x8": [True, False], "paper-9x9": [True] * 2}
    text = "VPO led by {hard-8x8:.3f} (hard mazes), {paper-9x9:.3f} (`paper-9x9`), {programs:.3f} ("
    text = text.format(**one_run)
    assert text.replace(" 0.", " .") in told, text


@pytest.mark.slow
def test_where_one_answer_is_served():
    """At the rate that is best for one answer each, GRPO is ahead; Max@k is the worst of all."""
    assert "Tuned for one answer, GRPO beats VPO at k = 1 on all four tasks." in README
    for name in HEADLINE:
        study, folder = study_page.read(name), results.SHIPPED / name
        best = {
            kind: max(
                row.figures["any@1"]
                for row in tables.at_every_rate(study, folder, kind, ["any@1"]).values()
            )
            for kind in study_page.PAIR
        }
        assert best["grpo_x3"] > best["vpo"] + 0.02
        found = tables.means(study, folder)
        first = {k: row["any@1"] for k, row in found.items() if study.kinds[k].trained}
        assert (min(first, key=first.get) == "max_at_k") == (name != "hard-8x8")


@pytest.mark.slow
def test_the_limits_of_the_headline():
    """tests/test_study_page.py holds the claims to STUDY.md; here are the figures told again."""
    told = " ".join(README.partition("## What the study found")[2].split())
    found = {}
    for name in HEADLINE:  # Max@k, at the rates of all runs
        study, folder = study_page.at_those_rates(name), results.SHIPPED / name
        leads = [tables.difference(study, folder, "max_at_k", f"any@{k}", "vpo") for k in (3, 30)]
        found[name] = [lead.sure for lead in leads]
        found[name].append(tables.means(study, folder, ["any@30"])["max_at_k"]["any@30"])
    text = "{programs[2]:.3f} on `programs` (.36 with as many tokens), {hops[2]:.3f} on `hops`, "
    text += "{hard[2]:.3f} on hard mazes"
    text = text.format(hard=found["hard-8x8"], **found)
    assert f"With thirty answers Max@k finds more than VPO: {text}".replace(" 0.", " .") in told
    assert {name: row[1] for name, row in found.items()} == {
        name: int(name != "paper-9x9") for name in HEADLINE
    }
    assert {name: row[0] for name, row in found.items()} == {
        name: 1 if name == "hard-8x8" else -1 for name in HEADLINE
    }
    for name in HEADLINE:
        study, folder = study_page.read(name), results.SHIPPED / name
        means = tables.means(study, folder)
        for figure in ("best@30", "any@30"):  # the reference: it found most on all four tasks
            assert max(means, key=lambda kind: means[kind][figure]) == "max_at_k", (name, figure)
        for k in (1, 3, 10, 30):
            assert tables.difference(study, folder, "set_max", f"any@{k}", "vpo").sure == 0
        less = tables.difference(study, folder, "set_max", "diversity", "vpo").sure == -1
        assert less == (name in ("paper-9x9", "hops"))


@pytest.mark.slow
def test_what_the_study_found_in_short():
    """The row beside other reasons for VPO: with rates chosen anew, in any@k."""
    ahead, gains = {}, []
    for name in HEADLINE:
        study, folder = study_page.at_those_rates(name), results.SHIPPED / name
        means = tables.means(study, folder, ["any@10", "any@30"])
        ahead[name] = {k for k in (3, 10, 30) if study_page.lead(name, f"any@{k}").sure == 1}
        for k in ahead[name]:
            theirs = means["grpo_x3"][f"any@{k}"]
            gains.append(100 * (means["vpo"][f"any@{k}"] / theirs - 1))
    assert ahead == {"paper-9x9": {10, 30}, "hard-8x8": {10, 30}, "programs": set(), "hops": set()}
    assert [round(min(gains)), round(max(gains))] == [1, 2]
    row = "| our main runs | 10 or 30 answers, on mazes: 1 to 2 % more | "
    assert f"{row}3 answers, or other tasks: not significantly more |" in README


@pytest.mark.slow
def test_what_the_bullets_say_of_the_front_and_of_collapse():
    hard, told = results.chosen(*at_those_rates("hard-8x8")), " ".join(README.split())
    shares = [study_page.curve(hard, kind, "solved")[9] for kind in study_page.THREE]
    text = "With ten answers it finds one on {:.0%} of them, GRPO on {:.0%}, Max@k on {:.0%}."
    assert text.format(*shares).replace("%", " %") in told
    assert "GRPO's diversity collapses on no task here." in told
    for name in HEADLINE:
        found = results.chosen(*at_those_rates(name))
        ours, start = (study_page.curve(found, x, "diversity") for x in ("grpo_x3", "start_single"))
        assert ours > 0.9 * start


def at_those_rates(name):
    """The study at the rates of the headline, and its folder."""
    return study_page.at_those_rates(name), results.SHIPPED / name


def test_the_price_on_the_front_page():
    """Mean scores of one route under w* in the demo, of as many answers; as REFERENCE has them."""
    rows = [
        line.split("|") for line in REFERENCE.splitlines() if "G = " in line and "k | 0." in line
    ]
    best = {row[1].strip(): row[5].strip() for row in rows}
    told = [best["GRPO, G = 48: equal answers"], best["VPO, m = 3, G = 16"]]
    assert f"GRPO is ahead, {float(told[0]):.2f} to {float(told[1]):.2f}." in README


# --- how fast -------------------------------------------------------------------------------------

SAMPLERS = {
    "sampling, against peft's `generate`": "decoder view",
    "... compiled": "decoder view, compiled",
    "... in bf16": "decoder view, bf16",
    "... in bf16, compiled": "decoder view, bf16, compiled",
}


def test_speeds_are_those_that_were_measured():
    found = json.loads((RESULTS / "training.json").read_text())
    runs = [found[f"threads_{n}"] for n in (2, 1)]
    for label, name in SAMPLERS.items():
        ratios = [[run["rollouts"][size][name]["ratio"] for run in runs] for size in ("1m", "10m")]
        row = " | ".join(" \\| ".join(f"{x:.1f}" for x in cell) for cell in ratios)
        assert f"| {label} | {row} |" in REFERENCE, row
    plain = [run["rollouts"]["1m"]["peft generate"]["seconds"] for run in runs]
    told = "`generate` takes {:.2f} s with two threads and {:.2f} s with one".format(*plain)
    assert told in REFERENCE, told


def test_ratios_on_uneven_lengths_are_those_that_were_measured():
    found = json.loads((RESULTS / "lengths.json").read_text())["cases"]
    told = " ".join(REFERENCE.partition("**Uneven lengths.**")[2][:2000].split())
    for name, words in {
        "sampling, 63 x 32 and 1 x 400": "one of 400, sampling is {} times as fast",
        "update, 63 x 32 and 1 x 400": "8` the update of those rollouts is {} times as fast",
        "update, half of the groups silent": "groups are silent, the update is {} times as fast",
        "demo, forty steps": "Its forty steps are {} times as fast with all three",
    }.items():
        assert words.format(f"{found[name]['ratio']:.1f}") in told, name


# --- on a GPU -------------------------------------------------------------------------------------

ON_A_GPU = REFERENCE.partition("## On a GPU")[2]
GPU = json.loads((RESULTS / "gpu.json").read_text())["parts"]


def row_of(label):
    """The cells of the row of "On a GPU" that begins with this label."""
    (line,) = (line for line in ON_A_GPU.splitlines() if line.startswith(f"| {label}"))
    return [cell.strip() for cell in line.split("|")[2:-1]]


def short(number):
    """As the page writes a small number: 7e-6."""
    return f"{number:.0e}".replace("e-0", "e-")


def test_speeds_on_a_gpu_are_those_that_were_measured():
    sizes = ("1m", "10m", "0.5b")
    for shape in ("8 x 8", "32 x 16"):
        found = [GPU["rollouts"][f"{size}, {shape}"] for size in sizes]
        ratios = [x["tokens_per_second"] for x in found]
        ratios = [x["view, CUDA graph"] / x["generate"] for x in ratios]
        label = "sampling 8 prompts" if shape == "8 x 8" else "sampling 32 x 16 x 48"
        assert row_of(label) == [f"{x:.1f}" for x in ratios]
    sides = [[GPU["trl"][size][side] for side in ("trl", "vpo_lite")] for size in sizes]
    steps = [theirs["seconds"] / ours["seconds"] for theirs, ours in sides]
    assert row_of("a whole step of 8 x 8 x 48") == [f"{x:.1f}" for x in steps]
    update = [
        [sum(x["split_median_seconds"][p] for p in ("forward + loss", "backward")) for x in pair]
        for pair in sides
    ]
    assert row_of("its update alone") == [f"{theirs / ours:.1f}" for theirs, ours in update]


def test_where_a_step_on_a_gpu_takes_its_time():
    steps = [GPU["step_time"][name] for name in ("1m", "10m", "0.5b", "preset gpu")]
    told = " s at 1 M parameters, {} s at 10 M and {} s at 0.5 B. One of preset `gpu`"
    times = [f"{step['seconds']:.2f}" for step in steps]
    text = " ".join(ON_A_GPU.split())
    assert times[0] + told.format(*times[1:3]) in text and f"takes {times[3]} s" in text
    parts = {
        "sampling |": "generate",
        "reading and scoring": "scoring",
        "forward pass": "forward + loss",
        "backward pass": "backward",
    }
    for label, part in parts.items():
        splits = [step["split_median_seconds"] for step in steps]
        assert row_of(label) == [
            f"{x[part] / sum(x.values()):.0%}".replace("%", " %") for x in splits
        ]
    long = [GPU["sampling_time"][f"{size}, 32 x 16 x 256"] for size in ("0.5b", "1m")]
    times = [round(1 / row["share_of_limit"]) for row in long]
    assert f"would be {times[0]} times as fast at 0.5 B, and {times[1]} times at 1 M" in text
    assert (
        f"A token of 0.5 B takes {1000 * long[0]['split_seconds']['tokens'] / 256:.0f} ms" in text
    )


def test_a_gpu_computes_what_the_cpu_does():
    gap = max(GPU["logits"][size] for size in ("1m", "10m"))
    assert row_of("logits") == [f"within {short(gap)} of the CPU's"]
    ways = [GPU["sampler"][way] for way in ("graph", "eager", "model's own")]
    assert all(way["same_rows"] == 1 for way in [*ways, GPU["compiled"]["compiled"]])
    off = GPU["update"]["gradient_off"]
    assert row_of("gradient") == [f"off by {short(off)} of its norm"]
    means = [np.mean([*GPU["demo"][where].values()]) for where in ("coverage", "coverage_cpu")]
    assert row_of("preset `demo`") == [
        "coverage {:.3f} after training, {:.3f} on the CPU".format(*means)
    ]
    assert not GPU["resume"]["bit_equal"] and GPU["resume"]["parameters_off"] < 1.05e-6
    assert GPU["commands"]["native"]["coverage_off"] == 0
    assert row_of("sampling in bfloat16") == [f"{GPU['bf16']['bfloat16']:.3f} nats a token apart"]
    gap = max(GPU["quantised"][bits] for bits in ("8bit", "4bit"))
    assert row_of("a base in 8 or 4 bit") == [f"sampler and update {gap:.3f} nats a token apart"]
    memory = [GPU["stated_memory"][size] for size in ("1m", "0.5b", "3b")]
    ratios = [f"{row['stated'] / row['measured']:.2f}" for row in memory]
    assert row_of("stated memory") == ["{} at 1 M, {} at 0.5 B, {} at 3 B".format(*ratios)]
    assert GPU["oom"]["outcome"] == GPU["nan"]["outcome"] == "passed"


def test_the_day_on_a_gpu_is_the_one_that_is_told():
    (row,) = (line for line in README.splitlines() if "REFERENCE.md#on-a-gpu" in line)
    assert row.endswith("| H100 | 2026-11-28 |") and "28 November 2026" in ON_A_GPU
    days = {part["date"][:10] for part in GPU.values()}
    assert days == {"2026-11-28"} and {part["device"] for part in GPU.values()} == {
        "NVIDIA H100 80GB HBM3"
    }
