"""The recipe for chains: the words of a pocket policy, and chains that fit many prompts.

Every place has two symbols, the candidates, so a prompt always has the same length, and a name of
the answer stands as far from its candidates as in any other prompt.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..options import setting
from ..randomness import generator
from ..tasks.ambiguous_chains import NAMES, NONE, PRIORS, IndependentChains
from ..tasks.base import Prompt, Task
from .recipe import FIRST_SEED, POCKET_ANSWERS, WEIGHTS, Recipe, some_weights

TRIES = 20  # to write a chain that is not in the set yet


def demonstrate(x, m: int, wrong_share: float, distinct_share: float, rng) -> list[str]:
    """m chains, each drawn from the prior on its own: no better than a guess, and no worse.

    A name is a random one of its kind with probability ``wrong_share``. A set holds no chain twice,
    where there are enough (``distinct_share``), or each is drawn anew.
    """
    fresh, chains = rng.random() < distinct_share, []
    for _ in range(m):
        for _ in range(TRIES):
            chain = " ".join(_name(i, x, wrong_share, rng) for i in range(len(NAMES)))
            if not (fresh and chain in chains):
                break
        chains.append(chain)
    return chains


def _name(place: int, x, wrong_share: float, rng) -> str:
    if rng.random() < wrong_share:
        names = list(NAMES.values())[place]
        return names[rng.integers(len(names))]
    names = x.candidates[place]
    return names[int(len(names) == 2 and rng.random() >= x.prior)]


@dataclass(frozen=True)
class ChainsRecipe(Recipe):
    """What makes a pocket policy for chains.

    It reads the candidates and draws each name about as likely as the prompt says. It knows nothing
    of the mode: what spoils what is for reinforcement learning to teach.

    >>> ChainsRecipe(wrong_share=2)
    Traceback (most recent call last):
    ...
    ValueError: wrong_share = 2: must be a finite number, 0 or more, at most 1
    """

    task: ClassVar[str] = IndependentChains.name
    tag: ClassVar[str] = IndependentChains.tag
    problems: ClassVar[str] = "chains"
    longest: ClassVar[int] = 64
    stops: ClassVar[bool] = True
    columns: ClassVar[dict[str, str]] = {
        "parse": "parse",
        "right": "right names",
        "distinct": "rollouts with m different chains",
        "coverage": "set reward of a rollout",
        "solved": "rollouts with the gold chain",
    }

    wrong_share: float = setting(
        0.02, "fraction of the names that are random ones, candidate or not", least=0, most=1
    )
    distinct_share: float = setting(
        0.5, "fraction of the sets that hold no chain twice, if there are enough", least=0, most=1
    )
    first_updates: int = setting(
        80, "updates at the beginning with one candidate for each place", least=0, most=10**9
    )
    updates: int = setting(700, "updates of the model", least=1, most=10**9)
    batch: int = setting(64, "demonstrations in an update", least=1, most=65_536)
    lr: float = setting(4e-3, "peak learning rate of AdamW, which then falls to 0", above=0, most=1)
    width: int = setting(64, "width of the model", least=1, most=16_384)
    layers: int = setting(2, "layers of the model", least=1, most=200)
    mlp: int = setting(192, "width of the model's MLP", least=1, most=65_536)
    save_every: int = setting(100, "updates between two stored states", least=1, most=10**9)

    def words(self) -> list[str]:
        names = [name for names in NAMES.values() for name in names]
        return [*WEIGHTS, *[f"<p{round(10 * p)}>" for p in PRIORS], NONE, *names]

    @cached_property
    def _tasks(self) -> list[IndependentChains]:
        return [IndependentChains(uncertain=n, prior=p) for n in range(1, 6) for p in PRIORS]

    def demonstration(self, i: int) -> tuple[Prompt, str]:
        """Number i. All of a batch have the same m."""
        batch = i // self.batch
        rng = generator(self.seed, "demonstration", 0, str(i))
        task = self._tasks[int(rng.integers(len(self._tasks)))]
        x, m = task.instance(FIRST_SEED + i), 1 + batch % POCKET_ANSWERS
        if batch < self.first_updates:
            x = x._replace(candidates=tuple(names[:1] for names in x.candidates))
        weights = some_weights(len(NAMES), rng)
        prompt = task.prompt(x, m, weights=weights, pocket=self.pocket())
        return prompt, task.write(x, demonstrate(x, m, self.wrong_share, self.distinct_share, rng))

    def measured(self) -> dict[str, Task]:
        return {
            f"{n} open places, {round(100 * p)} %": IndependentChains(uncertain=n, prior=p)
            for n, p in ((5, 0.8), (5, 0.6), (2, 0.6))
        }

    def figures(self, groups) -> dict[str, float | None]:
        """Shares of held-out problems, one rollout each.

        - parse, right: of the answers asked for, those that parse; of their names, the right ones
        - distinct: of the rollouts, those with m different chains
        - coverage: mean set reward, exact at alpha = 1; that of the true front is 1
        - solved: of the rollouts, those that hold the gold chain
        """
        found = super().figures(groups) | {
            "right": float(np.mean([group.rewards[0] for group in groups])),
            "solved": float(np.mean([group.solved[0].any() for group in groups])),
        }
        return {name: found[name] for name in self.columns}

    def story(self) -> tuple[str, str]:
        return (
            f"""that reads the candidates for
five entities, task chains, and writes m = 1 to {POCKET_ANSWERS} chains of them. It stands in for a
pretrained language model that is uncertain and knows how much: it draws each name about as likely
as the prompt says. Which guesses belong together in a set is for reinforcement learning to teach.
It reads both generated modes, and is good for nothing else.""",
            f"""on
drawn chains (seeds from {FIRST_SEED:,}) with one to five uncertain places; the likelier candidate
holds with probability 0.5 to 0.9. Seed {self.seed}. A name is drawn with just this probability, but
for a share of {self.wrong_share} random names. In a share of {self.distinct_share} of the sets no
chain stands twice, where there are enough. The first {self.first_updates} updates show
one candidate for each place.""",
        )
