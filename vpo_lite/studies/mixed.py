"""A task whose rewards are spoilt on purpose: for ablations of the reward vector.

It is the task ``programs`` with several hidden rules. Train on it as
``--task vpo_lite.studies.mixed:MixedRules``, and judge the policy on ``programs``.
"""

import hashlib

import numpy as np

from ..objective import nondominated
from ..options import Option
from ..tasks.program_rules import HiddenRules


class MixedRules(HiddenRules):
    """Programs whose components are pulled towards their mean, or joined by made-up ones.

    r' = (1 - mix) r + mix mean(r), so the mean of the components stays, and with it what GRPO is
    trained on. At mix = 1 all components are equal, and VPO is the method set_max. The map raises
    every component where r rises, so the front of r' is among the images of the front of r.

    - mix: 0 to 1
    - fake: styles, 0 to 8. Every answer has one of them, by a hash of its text, as further
      components 0 or 1. Nobody asked for them. A single style is a component that is always 1.

    >>> from vpo_lite.tasks.program_rules import Examples
    >>> tests = Examples(("3072", "9154"), ("2703", "0265"))
    >>> MixedRules(mix=0.5).score([tests], [["reverse"]])[0].tolist()  # (1, 0), mean 1/2
    [[0.75, 0.25]]
    >>> MixedRules(fake=2).score([tests], [["reverse"]])[0].tolist()
    [[1.0, 0.0, 1.0, 0.0]]
    """

    options = (
        *HiddenRules.options,
        Option("mix", float, 0.0, "weight of the mean in each component", least=0, most=1),
        Option("fake", int, 0, "made-up styles; 0: none", least=0, most=8),
    )

    def objectives(self, instance) -> tuple[str, ...]:
        return (*super().objectives(instance), *(f"style {i}" for i in range(1, self.fake + 1)))

    def vector(self, instance, answer: str) -> np.ndarray:
        mixed = self._mixed(super().vector(instance, answer).astype(float))
        return np.concatenate([mixed, self._style(answer)])

    def valid(self, instance, rewards) -> np.ndarray:
        """Those that pass a test, whatever their style."""
        return np.asarray(rewards)[..., : len(instance.inputs)].any(axis=-1)

    def front(self, instance) -> np.ndarray:
        """The exact front. With styles: each point of it in each style, as if all could be had."""
        front = self._mixed(super().front(instance))
        front = front[nondominated(front)]
        if not self.fake:
            return front
        styles = np.eye(self.fake)
        return np.concatenate(
            [np.column_stack([front, np.tile(s, (len(front), 1))]) for s in styles]
        )

    def target(self, instance, weights) -> float:
        """That of an answer that passes all tests, in the style that weighs most. Unknown where a
        test weighs less than 0.
        """
        weights, n = np.asarray(weights), len(instance.inputs)
        if weights[:n].min() < 0:
            return np.inf
        return float(weights[:n].sum() + max(weights[n:], default=0.0))

    def _mixed(self, rewards: np.ndarray) -> np.ndarray:
        return (1 - self.mix) * rewards + self.mix * rewards.mean(axis=-1, keepdims=True)

    def _style(self, answer: str) -> np.ndarray:
        drawn = int.from_bytes(hashlib.blake2b(answer.encode(), digest_size=8).digest(), "little")
        return np.eye(self.fake)[drawn % self.fake] if self.fake else np.zeros(0)
