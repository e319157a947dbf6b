"""Draw the validation set, the test set and the training instances of a stage."""

from typing import Any

from envgen.config import EnvConfig
from envgen.environment import Source
from envgen.files import digest
from envgen.sampling import sample
from infra.runs.files import CONFIG, TEST, TRAIN_DATA, VALIDATION
from infra.runs.run import Run
from infra.runs.steps import Stored
from tasks.run import log
from tasks.step import step


def _environment(run: Run) -> dict[str, Any]:
    """What decides how an instance is drawn, put into words and judged."""
    preset = run.preset
    return {"environment": preset.environment, "version": preset.task.version, "style": preset.prompt_style}


@step("validation", VALIDATION, decides=lambda run, *_: {"spec": run.preset.validation, **_environment(run)})
def make_validation(run: Run, stage: None = None) -> None:
    """Draw the validation set, the same for every curriculum of a preset."""
    preset = run.preset
    instances = preset.validation.draw(preset.task)
    log.info("validation set: %d instances", len(instances))
    origin = {"validation": preset.validation.model_dump(mode="json")}
    run.write(VALIDATION, instances, None, preset.prompt_style, origin, preset.environment)


def _tested(run: Run, *_: Any) -> dict[str, Any]:
    preset = run.preset
    assert preset.test
    return {**preset.test.content(preset.task, preset.validation), **_environment(run)}


@step("test-set", TEST, decides=_tested)
def make_test(run: Run, stage: None, validation: Stored) -> None:
    """Draw or read the test set of a preset that has one, without an instance of the validation set."""
    preset, validated = run.preset, {instance.id for instance in VALIDATION.read(validation.path)}
    assert preset.test
    instances = preset.test.draw(preset.task, preset.validation, frozenset(validated))
    log.info("test set: %d instances", len(instances))
    origin = {"test": preset.test.content(preset.task, preset.validation)}
    run.write(TEST, instances, None, preset.prompt_style, origin, preset.environment)


def _used(run: Run, stage: int) -> tuple[str, ...]:
    """Ids of what earlier stages trained on, once for each, where the environment is a table."""
    if all(run.preset.task.capacity(name) is None for name in run.preset.space.names):
        return ()
    return tuple(instance.id for earlier in range(stage) for instance in run.read(TRAIN_DATA, earlier))


def _draw(run: Run, stage: int, *_: Any) -> dict[str, Any]:
    seed, used = run.preset.seed, _used(run, stage)
    drawn = {"instances": run.preset.instances, **_environment(run), "seed": seed, "stage": stage}
    return {**drawn, "used": digest(used)} if used else drawn


@step("generate", TRAIN_DATA, CONFIG, decides=_draw)
def generate(run: Run, stage: int, config: EnvConfig, validation: Stored, test: Stored | None = None) -> None:
    """Draw the training data of a stage, without an instance of validation or test set, or a reserved one."""
    preset, seed = run.preset, run.preset.seed
    instances, report = sample(
        preset.task,
        config,
        preset.instances,
        Source(seed, stage, used=_used(run, stage)),
        run.held_out(),
        lambda line: log.info("stage %d: %s", stage, line),
    )
    # Not before: with its config a stage has begun, and what was decided on it stands.
    run.write(CONFIG, config, stage)
    origin = {"config": config, "seed": seed, "stage": stage, "report": report}
    run.write(TRAIN_DATA, instances, stage, preset.prompt_style, origin, preset.environment)
