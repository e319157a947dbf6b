"""Warm-start a chat model in a child process."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from envgen.environment import wrong_reference
from envgen.errors import ChildError, ConfigError, ModelError, excerpt
from envgen.files import canonical_json, write_json
from infra.config.preset import TUNING_SEED, load_preset
from infra.runs.run import validation_instances
from policy.child import run_child
from policy.grpo.train_spec import TrainingSettings, last_checkpoint
from policy.warm_start import HELD_OUT, Lesson, WarmStartRecipe, WarmStartSpec, evaluation_instances
from tasks.learn import one_gpu
from tasks.run import Throttle, log


def warm_start(output: Path, recipe: WarmStartRecipe) -> None:
    """Teach the recipe's model and put it at `output`; continue from the last checkpoint of a call that was
    cut off.

    ConfigError if that call had another recipe, or an environment has no references to learn from;
    ModelError if the recipe's model cannot be taught.
    """
    work = output.with_name(f"{output.name}-work")
    _claim(work, recipe)
    log.info("drawing the instances to evaluate on")
    evaluated = [evaluation_instances(lesson, recipe.evaluation_instances) for lesson in recipe.lessons]
    for lesson, instances in zip(recipe.lessons, evaluated, strict=True):
        _check_references(lesson, instances)
    unseen = held_out(recipe).union(instance.id for instances in evaluated for instance in instances)
    write_json(work / HELD_OUT, sorted(unseen))
    log.info("%d steps; %d instances are never taught", recipe.steps, len(unseen))
    problems: list[str] = []
    spec = WarmStartSpec(recipe=recipe, work=work, output=output)
    files = work / "spec.json", work / "training.log"
    try:
        environment = one_gpu(TrainingSettings())
        run_child("policy.sft", spec, *files, _progress(problems), environment=environment)
    except ChildError:
        if problems:
            raise ModelError(problems[-1]) from None
        raise


def _progress(problems: list[str]) -> Callable[[dict], None]:
    """Logs what the child tells, and adds what it says is wrong to `problems`."""
    throttle = Throttle()

    def progress(entry: dict) -> None:
        if "problem" in entry:
            problems.append(entry["problem"])
        if "loss" in entry and (throttle.ready() or entry["step"] == entry["steps"]):
            left = (entry["steps"] - entry["step"]) * entry["elapsed"] / max(1, entry["steps_here"])
            words = "step %d of %d, loss %.3f, %.0f min left"
            log.info(words, entry["step"], entry["steps"], entry["loss"], left / 60)

    return progress


def _check_references(lesson: Lesson, instances: list[Any]) -> None:
    """ConfigError for an instance whose reference is missing or does not solve it."""
    if wrong := wrong_reference(lesson.task, instances):
        instance, verdict = wrong
        question = excerpt(lesson.task.prompt(instance, lesson.style))
        reference = excerpt(lesson.task.reference(instance))
        raise ConfigError(
            f"lesson {lesson.name}: the environment {lesson.environment.name} has no reference answer to"
            f" {question} (it gives {reference}: {verdict.detail or 'empty'}); a policy is taught from"
            " references: let the generator give them, or start from a model that needs no warm start"
        )


def held_out(recipe: WarmStartRecipe) -> frozenset[str]:
    """Ids of the instances that the policy is never taught.

    These are what its environments reserve, as a benchmark, and its presets' validation and tuning sets.
    """
    unseen: list[Any] = []
    for name in recipe.presets:
        preset = load_preset(name)
        tuning = preset.model_copy(
            update={"validation": preset.validation.model_copy(update={"seed": TUNING_SEED})}
        )
        unseen += validation_instances(preset) + validation_instances(tuning)
    reserved = [lesson.task.reserved() for lesson in recipe.lessons]
    return frozenset(instance.id for instance in unseen).union(*reserved)


def _claim(work: Path, recipe: WarmStartRecipe) -> None:
    """Note the recipe in the work folder; ConfigError if another one was begun there."""
    path = work / "recipe.json"
    if path.is_file() and json.loads(path.read_bytes()) != json.loads(canonical_json(recipe)):
        step = last_checkpoint(work)
        reached = f" and reached {step.name}" if step else ""
        raise ConfigError(
            f"{work}: was begun with another recipe{reached}; repeat that call, choose another -o, or remove"
            " the folder"
        )
    write_json(path, recipe)
