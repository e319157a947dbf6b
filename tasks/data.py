"""Draw the validation set and the training instances of a stage."""

from typing import Any

from envgen.config import EnvConfig
from envgen.environment import Source
from envgen.sampling import sample
from infra.runs.files import CONFIG, TRAIN_DATA, VALIDATION
from infra.runs.run import Run, validation_instances
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
    instances = validation_instances(preset)
    log.info("validation set: %d instances", len(instances))
    origin = {"validation": preset.validation.model_dump(mode="json")}
    run.write(VALIDATION, instances, None, preset.prompt_style, origin, preset.environment)


def _draw(run: Run, stage: int, *_: Any) -> dict[str, Any]:
    seed = run.preset.stage_seed(stage)
    return {"instances": run.preset.instances, **_environment(run), "seed": seed, "stage": stage}


@step("generate", TRAIN_DATA, CONFIG, decides=_draw)
def generate(run: Run, stage: int, config: EnvConfig, validation: Stored) -> None:
    """Draw the training data of a stage, without an instance that is validated on or reserved."""
    preset = run.preset
    seed = preset.stage_seed(stage)
    validated = {instance.id for instance in VALIDATION.read(validation.path)}
    instances, report = sample(
        preset.task,
        config,
        preset.instances,
        Source(seed, stage),
        preset.task.reserved() | validated,
        lambda line: log.info("stage %d: %s", stage, line),
    )
    # Not before: with its config a stage has begun, and what was decided on it stands.
    run.write(CONFIG, config, stage)
    origin = {"config": config, "seed": seed, "stage": stage, "report": report}
    run.write(TRAIN_DATA, instances, stage, preset.prompt_style, origin, preset.environment)
