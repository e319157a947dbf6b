"""The instances of a run: its validation set, what training must not see, and which configs can be drawn."""

from typing import Any

from envgen.config import EnvConfig
from envgen.environment import Source
from envgen.sampling import attainable, sample
from infra.config.preset import Preset
from infra.runs.files import VALIDATION
from infra.runs.run import RunRef


def validation_instances(preset: Preset) -> list[Any]:
    """The validation set of a preset, drawn anew; no instance that the family reserves is in it."""
    instances: list[Any] = []
    for purpose, config, count in preset.validation.parts(preset.space):
        held = preset.task.reserved().union(instance.id for instance in instances)
        source = Source(preset.validation.seed, purpose=purpose)
        instances += sample(preset.task, config, count, source, held)[0]
    return instances


def held_out(run: RunRef) -> frozenset[str]:
    """Ids that training must not see: those of the validation set and those that the family reserves."""
    return run.preset.task.reserved().union(instance.id for instance in run.read(VALIDATION))


def possible(run: RunRef, stage: int, config: EnvConfig) -> tuple[EnvConfig, list[str]]:
    """The config nearest to `config` of which the instances of a stage can be drawn, and what was changed."""
    preset, source = run.preset, Source(run.preset.stage_seed(stage), stage)
    return attainable(preset.task, config, preset.instances, source, held_out(run))
