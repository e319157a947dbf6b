"""Draw the validation set and the training instances of a stage."""

from prefect import task

from envgen.benchmark import SUITE_SHA256, suite_identities
from envgen.config import EnvConfig
from envgen.dataset import read_dataset, write_dataset
from envgen.files import write_json
from envgen.problem import Instance
from envgen.sampler import SamplingReport, sample
from infra.preset import Preset
from infra.runs.steps import StepRecord, run_step
from infra.settings import Settings
from tasks.draw_on_ray import draw_on_ray
from tasks.run import RunRef, log, task_options


@task(**task_options("validation"))
def make_validation(run: RunRef) -> StepRecord:
    """Write `validation.parquet`, the same for every curriculum of a preset."""
    preset = run.preset
    spec = preset.validation

    def body() -> None:
        instances = validation_instances(preset)
        log.info("validation set: %d instances", len(instances))
        write_dataset(run.validation, instances, preset.prompt_style, {"validation": spec.model_dump(mode="json")})

    decides = {"spec": spec, "map_sizes": preset.space.map_sizes, "agents": preset.agents, "style": preset.prompt_style}
    if suite_identities(preset.agents):
        decides["benchmark"] = SUITE_SHA256
    return run_step(run.directory, "validation", decides, ("validation.parquet",), body)


@task(**task_options("generate"))
def generate(run: RunRef, stage: int, config: EnvConfig, validation: StepRecord) -> StepRecord:
    """Write `config.json` and `train.parquet` of a stage; no instance of the validation set or the benchmark suite is in it."""
    preset, directory = run.preset, run.stage(stage)
    seed = preset.stage_seed(stage)

    def body() -> None:
        instances, report = _draw(run, stage, config)
        # Not before: with its config a stage has begun, and what was decided on it stands.
        write_json(directory / "config.json", config)
        origin = {"config": config, "seed": seed, "stage": stage, "report": report}
        write_dataset(directory / "train.parquet", instances, preset.prompt_style, origin)

    decides = {
        "config": config,
        "instances": preset.instances,
        "agents": preset.agents,
        "style": preset.prompt_style,
        "seed": seed,
        "stage": stage,
        "validation": validation.key,
    }
    return run_step(directory, "generate", decides, ("config.json", "train.parquet"), body)


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


def validation_instances(preset: Preset) -> list[Instance]:
    """The validation set of a preset, drawn anew; no instance of the benchmark suite is in it."""
    benchmark = suite_identities(preset.agents)
    instances: list[Instance] = []
    for purpose, config, count in preset.validation.configs(preset.space.map_sizes):
        held = benchmark.union(i.problem.id for i in instances)
        instances += sample(config, count, agents=preset.agents, seed=preset.validation.seed, purpose=purpose, held_out=held)[0]
    return instances


def held_out(run: RunRef) -> frozenset[str]:
    """Identities that training must not see: those of the validation set and of the benchmark suite."""
    return suite_identities(run.preset.agents).union(i.problem.id for i in read_dataset(run.validation))
