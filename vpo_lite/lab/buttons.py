"""The buttons of the panel: what each asks of the lab, what stands on it; hints on the knobs."""

from typing import NamedTuple


class ButtonText(NamedTuple):
    """What stands on a button, its icon, and its hint."""

    text: str
    icon: str
    hint: str


BUTTONS = {  # request -> its button; that of reset is bring_back's where there is no run
    "train": ButtonText("Train", "play", "start, or go on after a pause"),
    "pause": ButtonText("Pause", "pause", "finish this step, then wait"),
    "stop": ButtonText("Stop", "stop", "finish this step; Train starts again from step 1"),
    "reset": ButtonText("Reset", "fast-backward", "forget the runs; same problem, same seed"),
    "bring_back": ButtonText("Bring back", "undo", "show again the runs that were forgotten last"),
    "new_maze": ButtonText("Next maze", "random", "the next of the demonstration mazes"),
    "next_problem": ButtonText("Next problem", "random", "the problem with the next number"),
    "step": ButtonText("One step", "step-forward", "one step, then pause"),
    "reseed": ButtonText("Reseed", "refresh", "forget the runs; same problem, next seed"),
    "record": ButtonText("Record", "save", "write the runs to a file that can be shown again"),
}

HINTS = {  # knob -> what a pointer on its name is told
    "alpha": "Dirichlet concentration: small = one objective counts, large = all count alike",
    "K": "weights drawn for each prompt",
    "no K": "the method draws no K weights: VPO does",
    "m": "answers in one rollout",
    "group_size": "rollouts in one group",
    "lr": "how far one step moves the policy",
    "steps": "steps of a whole run",
    "seed": "another seed: another run with the same settings",
    "look": "an earlier step of the runs",
    "more": "further settings, curves, and a code to share",
}
