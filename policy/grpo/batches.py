"""How TRL cuts a stage into generations and optimizer steps. Imports without torch."""

from math import ceil
from typing import Any, Self

from envgen.errors import ConfigError
from envgen.frozen import Frozen
from policy.grpo.launch import process_count
from policy.grpo.train_spec import MEMORY_OPTIONS, TrainingSettings, group_size


class Batches(Frozen):
    """Sizes that follow from `trl.GRPOConfig` and the number of processes, as in its `__post_init__`."""

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
        """The sizes under these options; ConfigError if the trainer would refuse them.

        What is generated together has to be whole passes and groups.
        """
        per_device = _count(trl, "per_device_train_batch_size", 8)
        accumulation = _count(trl, "gradient_accumulation_steps", 1)
        together = _count(trl, "generation_batch_size", 0)
        passes = _count(trl, "steps_per_generation", accumulation)
        if together and trl.get("steps_per_generation") is not None:
            raise ConfigError(
                f"trl.generation_batch_size: {together} is given together with trl.steps_per_generation, "
                f"{passes}; both say how much is generated: keep one"
            )
        if together % (per_device * processes):
            raise ConfigError(
                f"trl.generation_batch_size: {together} is no multiple of the {per_device * processes} "
                f"answers that are trained on at a time ({per_device} a pass, {processes} processes); "
                "give a multiple, or leave it out"
            )
        passes = together // (per_device * processes) or passes
        made = cls(
            per_device=per_device,
            accumulation=accumulation,
            per_generation=passes,
            iterations=_count(trl, "num_iterations", 1),
            processes=processes,
            group=group_size(trl),
        )
        if made.answers % made.group:
            raise ConfigError(
                f"trl.num_generations: {made.group} does not divide the {made.answers} answers that are "
                f"generated together ({per_device} a pass, {passes} passes, {processes} processes); "
                "change it, per_device_train_batch_size or gradient_accumulation_steps"
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
    def generated_a_step(self) -> int:
        """Answers that all processes generate for an optimizer step, on average, rounded down."""
        return self.per_device * self.accumulation * self.processes // self.iterations

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


SPLITTING = frozenset({*MEMORY_OPTIONS, "steps_per_generation", "generation_batch_size"})
"""Options of TRL that say how the answers of a step are split up; what is learned follows from their sum."""


def deciding_options(options: dict[str, Any], settings: TrainingSettings) -> dict[str, Any]:
    """What decides the result of training.

    These are the options outside `MEMORY_OPTIONS`, the answers a step and a generation, dtype and LoRA.
    """
    batches = Batches.of(options, process_count(settings))
    kept = {name: value for name, value in options.items() if name not in SPLITTING}
    if options.get("loss_type") == "bnpo":
        # Its loss is divided by the tokens of a pass, not of a step.
        kept["per_device_train_batch_size"] = batches.per_device
    return {
        "trl": kept,
        "answers_a_step": batches.per_device * batches.accumulation * batches.processes,
        "answers_together": batches.answers,
        "dtype": settings.dtype,
        "lora": settings.lora,
    }


def _count(trl: dict[str, Any], name: str, default: int) -> int:
    """An option that is a whole number of at least 1; the default where it is left out or null."""
    value = trl.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(
            f"trl.{name}: {value!r} is no whole number of at least 1; give one, or leave it out"
        )
    return value
