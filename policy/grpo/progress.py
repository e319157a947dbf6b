"""Progress of a training child: one JSON line a log entry on standard output, read by the parent."""

import time
from typing import Any

from transformers import TrainerCallback, TrainerState

from policy.child import tell


class ProgressLines(TrainerCallback):
    """Print `progress {json}` with step, steps and the numbers that the trainer logs.

    It also says how many steps and tokens this process has done, and in how many seconds.
    """

    def __init__(self) -> None:
        self._started, self._first_step, self._first_tokens = time.monotonic(), 0, 0.0

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Called by the trainer before its first step, or the first after a checkpoint."""
        self._started, self._first_step = time.monotonic(), state.global_step
        self._first_tokens = state.num_input_tokens_seen

    def on_log(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Called by the trainer at every log entry."""
        logs = kwargs.get("logs")
        if state.is_world_process_zero and logs and "train_runtime" not in logs:
            numbers = {key: value for key, value in logs.items() if isinstance(value, int | float)}
            here = {
                "steps_here": state.global_step - self._first_step,
                "tokens_here": state.num_input_tokens_seen - self._first_tokens,
                "elapsed": round(time.monotonic() - self._started, 2),
            }
            tell({"step": state.global_step, "steps": state.max_steps, **here, **numbers})
