"""Draw the validation set and the training instances of a stage."""

from typing import Any

from prefect import task

from envgen.config import EnvConfig
from envgen.environment import Source
from envgen.sampling import sample
from infra.config.preset import Preset
from infra.runs.data import held_out, validation_instances
from infra.runs.run import Run, RunRef
from infra.runs.stage import Stage
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
        run.write(Run.validation, instances, preset.prompt_style, origin, preset.family)

    decides = {"spec": spec, **environment(preset)}
    return run_step(run.directory, "validation", decides, (Run.validation.name,), body)


def environment(preset: Preset) -> dict[str, Any]:
    """What decides how an instance is drawn, put into words and judged."""
    return {"family": preset.family, "version": preset.task.version, "style": preset.prompt_style}


@task(**task_options("generate"))
def generate(run: RunRef, stage: int, config: EnvConfig, validation: StepRecord) -> StepRecord:
    """Write config and training data of a stage, without an instance that is validated on or reserved."""
    preset, files = run.preset, run.stage(stage)
    seed = preset.stage_seed(stage)

    def body() -> None:
        instances, report = sample(
            preset.task,
            config,
            preset.instances,
            Source(seed, stage),
            held_out(run),
            lambda line: log.info("stage %d: %s", stage, line),
        )
        # Not before: with its config a stage has begun, and what was decided on it stands.
        files.write(Stage.config, config)
        origin = {"config": config, "seed": seed, "stage": stage, "report": report}
        files.write(Stage.train, instances, preset.prompt_style, origin, preset.family)

    decides = {
        "config": config,
        "instances": preset.instances,
        **environment(preset),
        "seed": seed,
        "stage": stage,
        "validation": validation.key,
    }
    return run_step(files.directory, "generate", decides, (Stage.config.name, Stage.train.name), body)
