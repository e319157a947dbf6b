"""Draw the validation set and the training instances of a stage."""

from typing import Any

from prefect import task

from envgen.config import EnvConfig
from envgen.environment import Source
from envgen.sampling import sample
from infra.config.preset import Preset
from infra.runs.files import CONFIG, TRAIN_DATA, VALIDATION
from infra.runs.run import RunRef, validation_instances
from infra.runs.steps import StepRecord, run_step
from tasks.run import log, task_options


@task(**task_options("validation"))
def make_validation(run: RunRef) -> StepRecord:
    """Write the validation set, the same for every curriculum of a preset."""
    preset = run.preset
    spec = preset.validation

    def body() -> None:
        instances = validation_instances(preset)
        log.info("validation set: %d instances", len(instances))
        origin = {"validation": spec.model_dump(mode="json")}
        run.write(VALIDATION, instances, None, preset.prompt_style, origin, preset.environment)

    decides = {"spec": spec, **environment(preset)}
    return run_step(run.directory, "validation", decides, (VALIDATION.name,), body)


def environment(preset: Preset) -> dict[str, Any]:
    """What decides how an instance is drawn, put into words and judged."""
    return {"environment": preset.environment, "version": preset.task.version, "style": preset.prompt_style}


@task(**task_options("generate"))
def generate(run: RunRef, stage: int, config: EnvConfig, validation: StepRecord) -> StepRecord:
    """Write config and training data of a stage, without an instance that is validated on or reserved."""
    preset = run.preset
    seed = preset.stage_seed(stage)

    def body() -> None:
        instances, report = sample(
            preset.task,
            config,
            preset.instances,
            Source(seed, stage),
            run.held_out(),
            lambda line: log.info("stage %d: %s", stage, line),
        )
        # Not before: with its config a stage has begun, and what was decided on it stands.
        run.write(CONFIG, config, stage)
        origin = {"config": config, "seed": seed, "stage": stage, "report": report}
        run.write(TRAIN_DATA, instances, stage, preset.prompt_style, origin, preset.environment)

    decides = {
        "config": config,
        "instances": preset.instances,
        **environment(preset),
        "seed": seed,
        "stage": stage,
        "validation": validation.key,
    }
    return run_step(run.folder(stage), "generate", decides, (CONFIG.name, TRAIN_DATA.name), body)
