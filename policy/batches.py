"""How TRL cuts a stage into generations and optimizer steps. Imports without torch."""

from math import ceil
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from envgen.errors import ConfigError
from policy.train_spec import MEMORY_OPTIONS, TrainingSettings, group_size, process_count


class Batches(BaseModel):
    """Sizes that follow from options of `trl.GRPOConfig` and the number of processes, as in its `__post_init__`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    per_device: int
    """Answers in one forward and backward pass of one process."""
    accumulation: int
    """Such passes in an optimizer step."""
    per_generation: int
    """Such passes over the answers that are generated together."""
    iterations: int
    """Times that the answers are trained on."""
    processes: int
    group: int
    """Answers to each prompt."""

    @classmethod
    def of(cls, trl: dict[str, Any], processes: int) -> Self:
        """The sizes under these options; ConfigError if answers that are generated together are no whole groups."""
        per_device, accumulation = int(trl.get("per_device_train_batch_size", 8)), int(trl.get("gradient_accumulation_steps", 1))
        together = trl.get("generation_batch_size")
        passes = together // (per_device * processes) if together else int(trl.get("steps_per_generation") or accumulation)
        made = cls(
            per_device=per_device,
            accumulation=accumulation,
            per_generation=passes,
            iterations=int(trl.get("num_iterations", 1)),
            processes=processes,
            group=group_size(trl),
        )
        if not made.answers or made.answers % made.group:
            raise ConfigError(
                f"trl.num_generations: {made.group} does not divide the {made.answers} answers that are generated together ({per_device} a pass, {passes} "
                f"passes, {processes} processes); change it, per_device_train_batch_size or gradient_accumulation_steps"
            )
        return made

    @property
    def generated(self) -> int:
        """Answers that one process generates together."""
        return self.per_device * self.per_generation

    @property
    def answers(self) -> int:
        """Answers that all processes generate together."""
        return self.generated * self.processes

    @property
    def prompts(self) -> int:
        """Prompts that are answered together."""
        return self.answers // self.group

    def prompts_of_epoch(self, instances: int) -> int:
        """Instances that a pass over the data uses; TRL drops what does not fill a generation."""
        return instances // self.prompts * self.prompts

    def optimizer_steps(self, instances: int, epochs: float) -> int:
        """Optimizer steps of a stage."""
        passes = instances // self.prompts * self.per_generation * self.iterations
        return ceil(epochs * ceil(passes / self.accumulation))


def deciding_options(options: dict[str, Any], settings: TrainingSettings) -> dict[str, Any]:
    """What decides the result of training: options outside `MEMORY_OPTIONS`, answers a step and a generation, dtype and LoRA."""
    batches = Batches.of(options, process_count(settings))
    kept = {name: value for name, value in options.items() if name not in MEMORY_OPTIONS and name not in ("steps_per_generation", "generation_batch_size")}
    if options.get("loss_type") == "bnpo":
        # Its loss is divided by the tokens of a pass, not of a step.
        kept["per_device_train_batch_size"] = batches.per_device
    sizes = {"answers_a_step": batches.per_device * batches.accumulation * batches.processes, "answers_together": batches.answers}
    return {"trl": kept, **sizes, "dtype": settings.dtype, "lora": settings.lora}
