"""The training loop: a generator, which notebook, panel and command line all drive."""

import warnings
from collections.abc import Callable, Generator

from ..checks import check_truth, shown
from ..policy.threads import torch_threads
from ..tasks.base import Task
from ..tasks.records import told_before
from .config import TrainConfig
from .evaluate import check_config
from .learner import Learner
from .memory import check_fits, enough_memory, made_to_fit
from .record import StepRecord
from .step import train_step
from .watch import Watch


def _warn(said: str) -> None:
    warnings.warn(said, stacklevel=3)  # at the loop over the steps


def train(
    config: TrainConfig,
    *,
    learner: Learner | None = None,
    task: Task | None = None,
    fit: bool = True,
    tell: Callable[[str], object] | None = _warn,
) -> Generator[StepRecord, TrainConfig | None, None]:
    """Train with these settings, one :class:`StepRecord` per step.

    It writes nothing, and says nothing but by ``tell``. ``break`` or ``close()`` stops between two
    steps. ``send(changed_config)`` changes alpha, K, m, lr, ... from the next step on. Task, model,
    device, rank, dtype and gradient checkpointing stay, since the learner was built with them:
    another one is refused.

    - learner: task, policy and optimizer to go on with after the steps that it has done, up to
      ``steps`` in all; the caller can save the policy afterwards
    - task: a Task object for a new learner to train on, instead of the config's own
    - tell: called with each thing that is wrong with the answers or their rewards, once, after 50
      answers: see :func:`~.watch.faults`. Without a learner also with the records of a data file
      that are dropped. By default a warning. None: nothing is said.
    - fit: choose micro_batch and sample_batch, where the config names none, to fit into memory

    Raises, at the step that it concerns: ValueError for what is no Learner or Task, for no steps
    left, for settings that the learner was built with otherwise, and for sizes that this machine
    cannot hold; MemoryError where there is too little, TrainingError where training cannot go on.

    >>> config = TrainConfig.preset("demo", steps=1, prompts=1, group_size=4)
    >>> [record.step for record in train(config)]
    [1]
    """
    if learner is not None and task is not None:
        raise ValueError("task and learner: a learner has its task; give one of them")
    check_config(config)
    check_truth(fit, "fit")
    if learner is not None and not isinstance(learner, Learner):
        raise ValueError(f"learner = {shown(learner)}: expected a Learner")
    if learner is None:
        learner = Learner(config, task=task)
        for said in told_before(learner.task, config.task) if tell is not None else ():
            tell(said)
    if learner.steps >= config.steps:
        raise ValueError(
            f"steps = {config.steps:,}: the learner has done {learner.steps:,}; ask for more, or "
            "make a new Learner(config)"
        )
    watch = Watch(learner.task, small=learner.policy.pocket is not None)
    asked = used = None
    while learner.steps < config.steps:
        if config != asked:
            _check_built(learner, config)
            asked = used = config
            if fit:
                used = made_to_fit(learner.policy, config, learner.task)
            check_fits(learner.policy, used, learner.task)
        with torch_threads(used.threads), enough_memory(used):
            record = train_step(learner, used, learner.steps)
        learner.steps += 1
        for said in watch.look(record.groups) if tell is not None else ():
            tell(said)
        config = (yield record) or config
        check_config(config)


def _check_built(learner: Learner, config: TrainConfig) -> None:
    """Refuse a setting that the learner was built with otherwise, which would have no effect, and
    a method that it cannot train.
    """
    for name in learner.built_with:
        built, asked = getattr(learner.config, name), getattr(config, name)
        if asked != built:
            raise ValueError(
                f"{name} = {shown(asked)}: this learner was built with {shown(built)}, which "
                "cannot change. Make a new Learner(config), or keep the value"
            )
    learner.check(config)
