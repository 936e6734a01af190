"""Write the tables of notebooks/STUDY.md again, from the stored runs.

    .venv/bin/python tests/benchmarks/study_page.py

A table stands below a line <!-- vpo-lite study NAME --table FIGURE ... --> and is what this command
prints of the runs in vpo_lite/studies/shipped/NAME. Others are made here: see
:func:`table`. tests/test_study_page.py compares.
"""

import re
from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.stats import t as student

from vpo_lite.files import read_json
from vpo_lite.intervals import Noise, noise, total
from vpo_lite.markup import markdown_table
from vpo_lite.search.best_of import crossing
from vpo_lite.studies import declaration, results, searches, tables
from vpo_lite.studies.results import BUDGETS, SHIPPED

SHORT = {"vpo": "VPO", "grpo_x3": "GRPO", "max_at_k": "Max@k"}
THREE, PAIR = tuple(SHORT), ("vpo", "grpo_x3")
RATED = ("programs", "paper-9x9", "hard-8x8", "hops")  # these have all seeds at some rates
LARGE = "programs-large"
PAGE = Path(__file__).parents[2] / "notebooks" / "STUDY.md"
TABLE = re.compile(r"(<!-- (.+?) -->\n)((?:\|.*\n)*)")
# Of the paper: the project's page [W], and its plots, digitised (pass@k +-.003) [F].
PAPER = {
    "pass@1": ("code: GRPO .388, VPO .273 [F]", "solved", 1),
    "pass@3": ("code: .440, .450 [F]", "solved", 3),
    "pass@30": ("code: .498, .631 [F]", "solved", 30),
    "best@30 under w*": ("maze: GRPO .432, VPO .593; questions: .728, .832 [W]", "best", 30),
}


read = cache(declaration.read)  # the runs of one object are kept, too: results.chosen


def runs(name: str):
    """The study with this name and its shipped runs at the chosen learning rates, by kind."""
    study = read(name)
    return study, results.chosen(study, SHIPPED / name)


def curve(found, kind: str, figure: str) -> np.ndarray:
    """A figure's mean over seeds; (answers,) for a curve."""
    return np.mean([run.last[figure] for run in found[kind]], axis=0)


def beside_the_paper() -> str:
    """Our figures beside the paper's, GRPO first, as a Markdown table."""
    (_, found), (_, mazes) = runs("programs"), runs("paper-9x9")
    lines = []
    for label, (theirs, figure, k) in PAPER.items():
        here = (_pair(f, figure, k) for f in (found, mazes))
        lines.append([label, theirs, *here])
    ks = [
        crossing(curve(f, "vpo", "solved"), curve(f, "grpo_x3", "solved")) for f in (found, mazes)
    ]
    lines.append(["pass@k: VPO ahead from", "k = 3 [F]", *(f"k = {k}" for k in ks)])
    here = (_pair(f, "diversity_all") for f in (found, mazes))
    told = "maze: GRPO .003, VPO 1.01; questions: .054, .59 [W]"
    lines.append(["diversity, all answers", told, *here])
    here = (_pair(f, "best", 30, "max_at_k", "Max@k") for f in (found, mazes))
    told = "maze: Max@k .577, VPO .593 [W]"
    lines.append(["best@30 under w*", told, *here])
    ours = []
    for name in ("rules", "programs"):
        done = searches.finished(read(name), SHIPPED / name)
        share = [np.mean([row.solved_share for row in done[kind]]) for kind in ("grpo_x3", "vpo")]
        ours.append(f"`{name}`: {share[0]:.0%} and {share[1]:.0%}")
    told = "code: 0 and 4 of 32 problems, 200 iterations [F]"
    lines.append(["evolution, solved", told, "; ".join(ours), ""])
    return markdown_table(["figure", "paper", "here, `programs`", "here, `paper-9x9`"], lines)


def _pair(found, figure: str, k: int = 1, other="grpo_x3", name="GRPO") -> str:
    """A figure of another kind, then VPO's: means over seeds."""
    ends = (np.ravel(curve(found, kind, figure))[k - 1] for kind in (other, "vpo"))
    told = [f"{end:.3f}".removeprefix("0") for end in ends]
    return f"{name} {told[0]}, VPO {told[1]}"


def at_rates(name: str, rates: dict[str, float]):
    """The study with this name, as if these learning rates had been chosen for these kinds."""
    return _at_rates(name, tuple(rates.items()))


@cache
def _at_rates(name, rates):
    declared = read(name).declared
    rates = declared.rates | {kind: [lr] for kind, lr in rates}
    changes = {"rates": rates, "beyond": {}}
    return declaration.Study(name, declared.model_copy(update=changes))


@cache
def with_all_seeds(study, kind: str, figures=()) -> dict:
    """The row of each learning rate at which all seeds were run."""
    rows = tables.at_every_rate(study, SHIPPED / study.name, kind, figures)
    return {lr: row for lr, row in rows.items() if row.runs == study.seeds(kind)}


def by_all_seeds(study, kind: str) -> float:
    """The learning rate with the best mean validation, of those at which all seeds were run."""
    whole = with_all_seeds(study, kind)
    return max(whole, key=lambda lr: whole[lr].validation)


def at_those_rates(name: str):
    """The study as if the validation of all seeds had chosen the rates of the three."""
    study = read(name)
    return at_rates(name, {kind: by_all_seeds(study, kind) for kind in THREE})


def every_rate(names=RATED) -> str:
    """The three at every learning rate of these studies, as a Markdown table."""
    lines = []
    for name, kind in product(names, THREE):
        study = read(name)
        chosen = results.chosen_rate(study, SHIPPED / name, kind)
        best = by_all_seeds(study, kind)
        rows = tables.at_every_rate(study, SHIPPED / name, kind, ["any@1", "any@30"])
        for lr, row in rows.items():
            rate = f"**{lr:g}**" if lr == best else f"{lr:g}"
            numbers = [f"{x:.3f}" for x in (row.validation, *row.figures.values())]
            rate += " *" * (lr == chosen)
            lines.append([f"`{name}`", SHORT[kind], rate, str(row.runs), *numbers])
    heads = ["task", "method", "lr", "runs", "validation", "any@1", "any@30"]
    return markdown_table(heads, lines)


def rates_of_all_seeds() -> str:
    """The three at the rates that all seeds choose, as a Markdown table; marks: beside GRPO."""
    figures = ["any@1", "any@3", "any@10", "any@30", "best@30", "solved@10", "diversity"]
    lines = []
    for name in RATED:
        study = at_those_rates(name)
        made = tables.markdown(study, SHIPPED / name, figures).splitlines()
        rows = {row[0]: row for row in (line.strip("| ").split(" | ") for line in made)}
        for kind in THREE:
            _, _, lr, _, *cells = rows[study.kinds[kind].label]
            lines.append([f"`{name}`", SHORT[kind], lr, *cells])
    heads = ["task", "method", "lr", *(tables.WORDS[figure] for figure in figures)]
    return markdown_table(heads, lines)


@cache
def runs_of_all_seeds(name: str, kinds=PAIR) -> dict[str, dict[float, list[results.Result]]]:
    """The runs of these kinds by learning rate, where all seeds were run."""
    study, found = read(name), {}
    for kind in kinds:
        jobs = {
            lr: [study.job(kind, lr, seed) for seed in range(study.seeds(kind))]
            for lr in with_all_seeds(study, kind)
        }
        found[kind] = {
            lr: [results.read_result(study, SHIPPED / name, job) for job in of_rate]
            for lr, of_rate in jobs.items()
        }
    return found


@cache
def choices(name: str, kinds=PAIR) -> dict[tuple[float, float], float]:
    """How often validation would choose each pair of rates if the seeds were drawn anew: the share
    of all n^n draws of n seeds out of these n, with replacement. Both kinds have the seeds of one
    draw; kinds with different numbers of seeds are drawn independently.
    """
    best = []
    for runs in runs_of_all_seeds(name, kinds).values():
        validation = np.array([[run.validation for run in of_rate] for of_rate in runs.values()])
        n = validation.shape[1]
        draws = np.array(list(product(range(n), repeat=n)))
        means = validation[:, draws].mean(axis=-1)  # (rates, draws)
        best.append(np.array([*runs])[means.argmax(axis=0)].tolist())
    alike = len({len(rates) for rates in best}) == 1
    pairs = Counter(zip(*best, strict=True) if alike else product(*best))
    return {pair: times / pairs.total() for pair, times in pairs.items()}


def at_pair(name: str, rates, figure: str, kinds=PAIR, equal_tokens=False) -> tuple[float, Noise]:
    """How far the first kind is ahead of the second at these rates, and the noise of this lead.

    equal_tokens: of any@k or another curve. The first kind then draws as many answers as it writes
    with the tokens of k answers of the second: a number between two whole ones, at most 30.
    """
    runs = [runs_of_all_seeds(name, kinds)[kind][lr] for kind, lr in zip(kinds, rates, strict=True)]
    ours, others = (np.array([run.per_problem[figure] for run in of]) for of in runs)
    gaps = ours.mean(axis=0) - others.mean(axis=0)
    first, second = ours.mean(axis=1), others.mean(axis=1)
    if equal_tokens:
        curve, k = figure.split("@")
        tokens = [np.mean([run.last["tokens"] for run in of]) for of in runs]
        afford, ks = int(k) * tokens[1] / tokens[0], np.arange(1, 31)
        first = np.array([np.interp(afford, ks, run.last[curve]) for run in runs[0]])
    lead = float(first.mean() - second.mean())
    return lead, total([noise(gaps), noise(first), noise(second)])


Parts = list[tuple[float, tuple[float, Noise]]]  # of a mixture: its share, a mean and its noise


def mixed(parts: Parts) -> tables.Difference:
    """The mean of a mixture of t distributions, and its middle 95 %."""
    low, high = (
        brentq(lambda x, below=below: _below(parts, x) - below, -1, 1) for below in (0.025, 0.975)
    )
    return tables.Difference(sum(share * mean for share, (mean, _) in parts), low, high, 0)


def chance(parts: Parts) -> float:
    """The two-sided p-value of such a lead: twice the smaller share of the mixture beside 0."""
    below = _below(parts, 0)
    return 2 * min(below, 1 - below)


def _below(parts: Parts, x: float) -> float:
    """The share of the mixture below x."""
    return sum(
        share * student.cdf((x - mean) / spread.variance**0.5, spread.freedom)
        for share, (mean, spread) in parts
    )


def parts_of(name: str, figure: str, kinds=PAIR, **how) -> Parts:
    """The first kind's lead at each pair of rates, with the share of :func:`choices`."""
    pairs = choices(name, kinds).items()
    return [(share, at_pair(name, rates, figure, kinds, **how)) for rates, share in pairs]


def lead(name: str, figure: str, **how) -> tables.Difference:
    """A lead, VPO's over GRPO by default, where the choice of the rates is a source of chance, too.

    A mixture: with the share of :func:`choices` the lead at each pair of rates, which has the t
    distribution that its interval is taken from. The 95 % interval is the middle of the mixture.
    """
    return mixed(parts_of(name, figure, **how))


def holm(values) -> list[float]:
    """These p-values, corrected for their number. Source: Holm, 1979.

    The smallest times n, the next times n - 1, and so on; none below the one before it.
    """
    values = np.asarray(values)
    order = values.argsort()
    times = np.arange(len(values), 0, -1)
    corrected = np.empty(len(values))
    corrected[order] = np.maximum.accumulate(values[order] * times).clip(max=1)
    return corrected.tolist()


def rates_chosen_anew() -> str:
    """How often each rate is chosen, from 5 % on, as a Markdown table."""
    lines = []
    for name in RATED:
        of_kind = {kind: Counter() for kind in PAIR}
        for rates, share in choices(name).items():
            for kind, lr in zip(PAIR, rates, strict=True):
                of_kind[kind][lr] += share
        told = (
            ", ".join(f"{lr:g}: {100 * x:.0f} %" for lr, x in shares.most_common() if x >= 0.05)
            for shares in of_kind.values()
        )
        lines.append([f"`{name}`", *told])
    return markdown_table(["task", "VPO's rate", "GRPO's rate"], lines)


def leads_with_rates_chosen_anew() -> str:
    """VPO's lead over GRPO, with the chosen rates as given and as chance, as a Markdown table."""
    lines = []
    for name in RATED:
        there = at_those_rates(name)
        for k in BUDGETS:
            given = tables.difference(there, SHIPPED / name, "vpo", f"any@{k}")
            lines.append([f"`{name}`", f"any@{k}", _told(given), _told(lead(name, f"any@{k}"))])
    return markdown_table(["task", "figure", "rates given", "rates chosen anew"], lines)


def _told(gap: tables.Difference) -> str:
    """A difference with its interval and its mark."""
    return f"{gap.mean:+.3f} ({gap.low:+.3f} to {gap.high:+.3f}){gap.mark}"


def over_more_weights() -> str:
    """VPO's lead in any@k, over the study's 50 weights and over many, as a Markdown table."""
    import any_at_k  # which imports this module

    return any_at_k.table()


def repeated() -> str:
    """The repeated runs beside the stored ones, as a Markdown table."""
    import repeats  # it trains, too, and so needs torch

    return repeats.table()


def at_other_temperatures() -> str:
    """Policies that sample at other temperatures, as a Markdown table."""
    import temperatures

    return temperatures.table()


def rates_that_fall() -> str:
    """Runs whose learning rate falls beside those whose rate stays, as a Markdown table."""
    import repeats

    return repeats.falling()


def judged() -> dict[float, list[float]]:
    """Coverage at each alpha of sets of three, by the alpha at which they were trained."""
    study, found = runs("ablation-maze")
    kinds = {kind: study.kinds[kind].settings for kind in found if kind.startswith("alpha-")}
    return {
        settings["alpha"]: curve(found, kind, "judged").tolist()
        for kind, settings in kinds.items()
        if settings["m"] == 3
    }


def trained_at_judged_at() -> str:
    """The same as a Markdown table: a row for each alpha of training."""
    alphas = read("ablation-maze").measured.alphas
    heads = ["trained at", *(f"judged at {alpha:g}" for alpha in alphas)]
    rows = ([f"{alpha:g}", *(f"{x:.3f}" for x in row)] for alpha, row in judged().items())
    return markdown_table(heads, rows)


def on_one_maze() -> str:
    """Coverage and diversity on one maze, as a Markdown table: a row for each alpha, then m."""
    study, found = runs("ablation-maze")
    cells = {}
    for kind in found:
        if kind.startswith("alpha-"):
            settings = study.kinds[kind].settings
            ends = (float(curve(found, kind, name)) for name in ("coverage", "diversity"))
            cells[settings["alpha"], settings["m"]] = "{:.3f}, {:.2f}".format(*ends)
    sizes = sorted({m for _, m in cells})
    alphas = sorted({alpha for alpha, _ in cells})
    rows = ([f"{alpha:g}", *(cells[alpha, m] for m in sizes)] for alpha in alphas)
    return markdown_table(["alpha", *(f"m = {m}" for m in sizes)], rows)


def what_it_took() -> str:
    """Runs, searches and hours of each study, as a Markdown table."""
    lines = []
    for name in declaration.names():
        study, folder = read(name), SHIPPED / name
        files = [path for path in folder.glob("*.json") if not path.name.startswith("search-")]
        trained = [read_json(path, results.Result) for path in files]
        hours = sum(run.seconds for run in trained) / 3600
        done = searches.finished(study, folder) if study.declared.search else {}
        rows = [row for kind in done.values() for row in kind]
        spent = sum(row.seconds for row in rows) / 3600
        cells = [f"`{name}`", str(len(trained)), f"{hours:.1f}", str(len(rows)), f"{spent:.1f}"]
        lines.append(cells)
    return markdown_table(["study", "runs of training", "hours", "searches", "hours"], lines)


def table(command: str) -> str | None:
    """The table that belongs to a line of the page; None where none does."""
    made = {
        "beside the paper": beside_the_paper,
        "every learning rate": every_rate,
        "larger batches": lambda: every_rate((LARGE,)),
        "rates of all seeds": rates_of_all_seeds,
        "rates chosen anew": rates_chosen_anew,
        "leads with rates chosen anew": leads_with_rates_chosen_anew,
        "any@k over more weights": over_more_weights,
        "trained at, judged at": trained_at_judged_at,
        "alpha and m on one maze": on_one_maze,
        "what it took": what_it_took,
        "repeated runs": repeated,
        "rates that fall": rates_that_fall,
        "other temperatures": at_other_temperatures,
    }
    if command in made:
        return made[command]() + "\n"
    found = re.fullmatch(r"vpo-lite study (\S+) --table (.+)", command)
    if found is None:
        return None
    study, folder, figures = read(found[1]), SHIPPED / found[1], found[2].split()
    if figures == ["search"]:
        return searches.markdown(study, folder) + "\n"
    return tables.markdown(study, folder, figures) + "\n"


def written(page: str) -> str:
    """The page with every table as the stored runs give it."""
    return TABLE.sub(lambda found: found[1] + (table(found[2]) or found[3]), page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
