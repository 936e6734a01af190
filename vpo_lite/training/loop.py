"""The training loop: a generator, so that a notebook, a panel, a test and the command line drive it alike."""

from collections.abc import Generator

from .config import TrainConfig
from .step import Learner, StepRecord, train_step


def train(
    config: TrainConfig, *, learner: Learner | None = None, first_step: int = 0
) -> Generator[StepRecord, TrainConfig | None, None]:
    """Train after ``config``, one :class:`StepRecord` per step. Prints nothing, writes nothing.

    ``break`` or ``close()`` stops cleanly: between two records nothing is under way. ``send(changed_config)`` acts from the
    next step (alpha, K, m, lr, ...); what the learner was built with (model, rank) stays.

    Args: learner: policy and optimizer to go on with (kept by the caller, who can then save the policy); first_step: where
    a resumed run goes on.

    >>> config = TrainConfig.preset("demo", steps=1, prompts=1, group_size=2, maze_seed=1000)
    >>> [record.step for record in train(config)]
    [1]
    """
    learner = learner or Learner(config)
    step = first_step
    while step < config.steps:
        for group in learner.optimizer.param_groups:
            group["lr"] = config.lr
        changed = yield train_step(learner, config, step)
        config = changed or config
        step += 1
