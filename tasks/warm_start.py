"""Warm-start a chat model in a child process."""

import json
from pathlib import Path
from typing import Any

from envgen.environment import wrong_reference
from envgen.errors import ConfigError, excerpt
from envgen.files import canonical_json
from infra.config.preset import TUNING_SEED, Preset
from policy.child import run_child
from policy.grpo.train_spec import TrainingSettings, last_checkpoint
from policy.warm_start import RATES, Taught, WarmStartRecipe, WarmStartSpec, evaluation_instances
from tasks.learn import one_gpu
from tasks.run import Throttle, log


def warm_start(output: Path, preset: Preset, recipe: WarmStartRecipe) -> Taught:
    """Teach the preset's model its environment, and put it at `output`; a call that was cut off is continued.
    ConfigError if that was another warm start, or references are missing; ChildError if teaching fails."""
    work = output.with_name(f"{output.name}-work")
    spec = WarmStartSpec(
        recipe=recipe,
        model=preset.model,
        chat_template_kwargs=preset.chat_template_kwargs,
        environment=preset.environment,
        style=preset.prompt_style,
        config=preset.start_config,
        answer_tokens=preset.max_answer_tokens,
        work=work,
        output=output,
    )
    log.info("drawing the instances to evaluate on")
    evaluated = evaluation_instances(spec)
    _check_references(spec, evaluated)
    unseen = held_out(preset).union(instance.id for instance in evaluated)
    spec = spec.model_copy(update={"held_out": tuple(sorted(unseen))})
    _check_same(work, spec)
    log.info("%d steps; %d instances are never taught", recipe.steps, len(unseen))
    throttle = Throttle()

    def progress(entry: dict[str, Any]) -> None:
        if "loss" in entry and (throttle.ready() or entry["step"] == entry["steps"]):
            left = (entry["steps"] - entry["step"]) * entry["elapsed"] / max(1, entry["steps_here"])
            words = "step %d of %d, loss %.3f, %.0f min left"
            log.info(words, entry["step"], entry["steps"], entry["loss"], left / 60)

    files = work / "spec.json", work / "training.log"
    run_child("policy.sft", spec, *files, progress, environment=one_gpu(TrainingSettings()))
    return Taught.model_validate_json((output / RATES).read_bytes())


def _check_references(spec: WarmStartSpec, instances: list[Any]) -> None:
    """ConfigError for an instance whose reference is missing or does not solve it."""
    task = spec.task
    if wrong := wrong_reference(task, instances):
        instance, verdict = wrong
        question, reference = excerpt(task.prompt(instance, spec.style)), excerpt(task.reference(instance))
        problem = f"has no reference answer to {question} (it gives {reference}: {verdict.detail or 'empty'})"
        remedy = "let the generator give them, or start from a model that needs no warm start"
        reason = f"{problem}; a policy is taught from references: {remedy}"
        raise ConfigError(f"environment: {spec.environment.name} {reason}")


def held_out(preset: Preset) -> frozenset[str]:
    """Ids that the policy is never taught: reserved ones, and the validation, tuning and test sets."""
    task, validation = preset.task, preset.validation
    tuning = validation.model_copy(update={"seed": TUNING_SEED}).draw(task)
    validated = frozenset(instance.id for instance in validation.draw(task))
    test = preset.test.draw(task, validation, validated) if preset.test else []
    return task.reserved().union(validated, (instance.id for instance in [*tuning, *test]))


def _check_same(work: Path, spec: WarmStartSpec) -> None:
    """ConfigError if another warm start was begun in the work folder."""
    path, places = work / "spec.json", {"work": "", "output": ""}
    if path.is_file() and json.loads(path.read_bytes()) | places != json.loads(canonical_json(spec)) | places:
        step = last_checkpoint(work)
        reached = f" and reached {step.name}" if step else ""
        remedy = "repeat that call, choose another -o, or remove the folder"
        raise ConfigError(f"{work}: was begun with another preset, model or --set{reached}; {remedy}")
