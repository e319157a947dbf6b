"""Ask the installed TRL and PEFT whether they accept a stage's options, before anything is computed.

`python -m policy.grpo.check SPEC` builds the real `GRPOConfig` and `LoraConfig` from a `CheckSpec` in JSON,
and prints a `TrainingPlan`, or `{"refused": ...}` with the field and the reason. Imports without torch."""

import dataclasses
import difflib
import gc
import json
import re
import subprocess
import sys
from functools import cache
from math import ceil
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from envgen.errors import ChildError, ConfigError
from envgen.frozen import Frozen
from policy.child import start_child
from policy.grpo.train_spec import DEFAULTS


class CheckSpec(Frozen):
    """Options of one stage."""

    trl: dict[str, Any]
    """Options of `trl.GRPOConfig`."""
    lora: dict[str, Any] | None = None
    """Options of `peft.LoraConfig`."""
    processes: int = 1
    instances: int
    """Training instances of the stage."""


class TrainingPlan(Frozen):
    """Sizes that follow from accepted options."""

    processes: int
    prompts: int
    """Prompts that are answered together."""
    completions: int
    """Completions that are generated together."""
    optimizer_steps: int
    """Optimizer steps of a stage."""


def plan_training(spec: CheckSpec) -> TrainingPlan:
    """Run the check in a child process, which takes seconds; ConfigError names the field that is refused."""
    answer = _answer(spec.model_dump_json())
    if "refused" in answer:
        raise ConfigError(answer["refused"])
    return TrainingPlan.model_validate(answer)


@cache
def _answer(spec: str) -> dict[str, Any]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    child = start_child("policy.grpo.check", [spec], **pipes)
    output, errors = child.communicate()
    if child.returncode or not output.strip():
        reason = (errors.strip().splitlines() or ["no output"])[-1]
        raise ChildError(f"the check of the training options failed: {reason}")
    return json.loads(output.splitlines()[-1])


def grpo_arguments(options: dict[str, Any], processes: int | None = None) -> Any:
    """Return the `GRPOConfig` of these options with our defaults, for another number of `processes`."""
    import torch
    from trl import GRPOConfig

    kind: Any = GRPOConfig
    if processes is not None:
        kind = type("GRPOConfig", (GRPOConfig,), {"world_size": property(lambda _: processes)})
    gpu = torch.cuda.is_available()
    defaults = {
        # Sampling in training is locked: what is trained is what was sampled.
        "top_p": 1.0,
        "top_k": 0,
        "temperature": 1.0,
        "shuffle_dataset": True,
        "disable_tqdm": True,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "save_strategy": "no",  # `policy.grpo.saving.SaveByTime`
        "save_total_limit": 2,
        "use_cpu": not gpu,
        "dataloader_pin_memory": gpu,
    }
    return kind(**{**defaults, **DEFAULTS, **options})


def check(spec: CheckSpec) -> TrainingPlan:
    """Build the configs and return the sizes; ConfigError names the refused field. Runs in the child."""
    from trl import GRPOConfig

    if spec.lora is not None:
        from peft import LoraConfig

        _check_fields("lora", LoraConfig, spec.lora)
        _built("lora", spec.lora, lambda: LoraConfig(task_type="CAUSAL_LM", **(spec.lora or {})))
    _check_fields("trl", GRPOConfig, spec.trl)
    options = {"output_dir": "unused", "report_to": [], **spec.trl}
    config = _built("trl", spec.trl, lambda: grpo_arguments(options, spec.processes))
    _built("trl", spec.trl, lambda: _build_optimizer(config))
    prompts = config.generation_batch_size // config.num_generations
    if spec.instances < prompts:
        problem = f"{spec.instances} are fewer than the {prompts} prompts answered together"
        raise ConfigError(f"instances: {problem}; raise it, or lower the batch")
    # TRL drops the prompts that do not fill a generation.
    passes = spec.instances // prompts * config.steps_per_generation * config.num_iterations
    steps = ceil(config.num_train_epochs * ceil(passes / config.gradient_accumulation_steps))
    return TrainingPlan(
        processes=spec.processes,
        prompts=prompts,
        completions=config.generation_batch_size,
        optimizer_steps=config.max_steps if config.max_steps > 0 else steps,
    )


def _build_optimizer(config: Any) -> None:
    """Make the optimizer and the scheduler of a `GRPOConfig` for a layer of one weight; raise what they raise
    about their options. Packages of this machine are no part of the check."""
    import torch
    from transformers import Trainer, get_scheduler

    layer = torch.nn.Linear(1, 1, bias=False)
    if config.optim_target_modules or "lomo" in config.optim:
        return  # they need the modules of the policy
    try:
        kind, options = Trainer.get_optimizer_cls_and_kwargs(config, layer)  # pyright: ignore[reportArgumentType]
    except Exception as error:
        if isinstance(error, ImportError) or re.search(r"\b(install|import)", str(error)):
            return  # see `policy.grpo.launch.check_machine`
        raise
    groups: Any = [{"params": layer.parameters(), "weight_decay": config.weight_decay}]
    get_scheduler(
        config.lr_scheduler_type,
        optimizer=kind(groups, **options),
        num_warmup_steps=config.get_warmup_steps(100),
        num_training_steps=100,
        scheduler_specific_kwargs=config.lr_scheduler_kwargs,
    )


def _check_fields(field: str, owner: Any, options: dict[str, Any]) -> None:
    """ConfigError for an option that a dataclass lacks, or whose value has another type."""
    names = [item.name for item in dataclasses.fields(owner) if item.init]
    types = get_type_hints(owner)
    for name, value in options.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"see the documentation of {owner.__name__}"
            raise ConfigError(f"{field}.{name}: the installed {owner.__name__} has no such option; {hint}")
        try:
            settings = ConfigDict(allow_inf_nan=False, arbitrary_types_allowed=True)
            TypeAdapter(types[name], config=settings).validate_python(value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            problem = f"{value!r} is no value of {owner.__name__}: {reason}"
            raise ConfigError(f"{field}.{name}: {problem}") from None
        except PydanticUserError:
            continue  # a type of the library, which checks it itself


def _built(field: str, options: dict[str, Any], build: Any) -> Any:
    """Call `build`; ConfigError with what a library says, and the option that it names."""
    try:
        return build()
    except Exception as error:  # libraries raise anything about options
        reason = " ".join(str(error).split()) or type(error).__name__
        named = next((name for name in options if re.search(rf"\b{re.escape(name)}\b", reason)), None)
        where = f"{field}.{named}: {options[named]!r}: " if named else f"{field}: "
        raise ConfigError(f"{where}{reason}; change it or leave it out") from None


def main() -> None:
    """Entry point of the child."""
    gc.disable()  # see policy.grpo.training
    try:
        print(check(CheckSpec.model_validate_json(sys.argv[1])).model_dump_json())
    except ConfigError as error:
        print(json.dumps({"refused": str(error)}))


if __name__ == "__main__":
    main()
