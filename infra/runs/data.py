"""The instances of a run: its validation set, what training must not see, and which configs can be drawn."""

from envgen.config import EnvConfig
from envgen.mapf.benchmark import suite_identities
from envgen.mapf.problem import Instance
from envgen.mapf.sampler import attainable, sample
from infra.config.preset import Preset
from infra.config.settings import Settings
from infra.runs.run import RunRef


def validation_instances(preset: Preset) -> list[Instance]:
    """The validation set of a preset, drawn anew; no instance of the benchmark suite is in it."""
    benchmark, seed = suite_identities(preset.agents), preset.validation.seed
    instances: list[Instance] = []
    for purpose, config, count in preset.validation.configs(preset.space.map_sizes):
        held = benchmark.union(i.problem.id for i in instances)
        instances += sample(config, count, agents=preset.agents, seed=seed, purpose=purpose, held_out=held)[0]
    return instances


def held_out(run: RunRef) -> frozenset[str]:
    """Identities that training must not see: those of the validation set and of the benchmark suite."""
    return suite_identities(run.preset.agents).union(i.problem.id for i in run.validation)


def possible(run: RunRef, stage: int, config: EnvConfig) -> tuple[EnvConfig, list[str]]:
    """The config nearest to `config` of which the instances of a stage can be drawn, and what was changed."""
    count, agents, seed = run.preset.instances, run.preset.agents, run.preset.stage_seed(stage)
    held, workers = held_out(run), Settings().workers
    return attainable(config, count, agents=agents, seed=seed, stage=stage, held_out=held, workers=workers)
