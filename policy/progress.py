"""Progress of a training child: one JSON line a log entry on standard output, read by the parent."""

import time
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from policy.child import tell


class ProgressLines(TrainerCallback):
    """Print `progress {json}` with step, steps, seconds and the numbers the trainer logs."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Called by the trainer at every log entry."""
        if logs and "train_runtime" not in logs:
            numbers = {key: value for key, value in logs.items() if isinstance(value, int | float)}
            entry = {"step": state.global_step, "steps": state.max_steps, "elapsed": round(time.monotonic() - self.started, 2), **numbers}
            tell(entry)
