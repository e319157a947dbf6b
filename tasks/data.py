"""Draw the validation set and the training instances of a stage."""

from prefect import task

from envgen.config import EnvConfig
from envgen.mapf.benchmark import SUITE_SHA256, suite_identities
from envgen.mapf.problem import Instance
from envgen.mapf.sampler import SamplingReport, sample
from infra.config.settings import Settings
from infra.runs.data import held_out, validation_instances
from infra.runs.run import Run, RunRef
from infra.runs.stage import Stage
from infra.runs.steps import StepRecord, run_step
from tasks.draw_on_ray import draw_on_ray
from tasks.run import log, task_options


@task(**task_options("validation"))
def make_validation(run: RunRef) -> StepRecord:
    """Write the validation set, the same for every curriculum of a preset."""
    preset = run.preset
    spec = preset.validation

    def body() -> None:
        instances = validation_instances(preset)
        log.info("validation set: %d instances", len(instances))
        run.write(Run.validation, instances, preset.prompt_style, {"validation": spec.model_dump(mode="json")})

    sizes = preset.space.map_sizes
    decides = {"spec": spec, "map_sizes": sizes, "agents": preset.agents, "style": preset.prompt_style}
    if suite_identities(preset.agents):
        decides["benchmark"] = SUITE_SHA256
    return run_step(run.directory, "validation", decides, (Run.validation.name,), body)


@task(**task_options("generate"))
def generate(run: RunRef, stage: int, config: EnvConfig, validation: StepRecord) -> StepRecord:
    """Write config and training data of a stage, without an instance of the validation set or benchmark suite."""
    preset, files = run.preset, run.stage(stage)
    seed = preset.stage_seed(stage)

    def body() -> None:
        instances, report = _draw(run, stage, config)
        # Not before: with its config a stage has begun, and what was decided on it stands.
        files.write(Stage.config, config)
        origin = {"config": config, "seed": seed, "stage": stage, "report": report}
        files.write(Stage.train, instances, preset.prompt_style, origin)

    decides = {
        "config": config,
        "instances": preset.instances,
        "agents": preset.agents,
        "style": preset.prompt_style,
        "seed": seed,
        "stage": stage,
        "validation": validation.key,
    }
    return run_step(files.directory, "generate", decides, (Stage.config.name, Stage.train.name), body)


def _draw(run: RunRef, stage: int, config: EnvConfig) -> tuple[list[Instance], SamplingReport]:
    preset, settings = run.preset, Settings()
    if settings.ray:
        return draw_on_ray(run, stage, config, settings.workers)
    return sample(
        config,
        preset.instances,
        agents=preset.agents,
        seed=preset.stage_seed(stage),
        stage=stage,
        held_out=held_out(run),
        workers=settings.workers,
        progress=lambda line: log.info("stage %d: %s", stage, line),
    )
