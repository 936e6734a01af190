"""What can go wrong while a run is under way. No torch, so the command line may know it."""


class TrainingError(RuntimeError):
    """Training cannot go on. The message names the cause, and where known step, prompt and cure."""
