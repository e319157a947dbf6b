"""Draw data sets of any environment: exact counts for each stratum, nothing twice, nothing held out."""

from collections.abc import Callable
from typing import Any

from envgen.config import SHARE, EnvConfig, Part
from envgen.environment import Environment, Source
from envgen.errors import SamplingError, ShortageError


def sample(
    environment: Environment,
    config: EnvConfig,
    count: int,
    source: Source,
    held_out: frozenset[str] = frozenset(),
    progress: Callable[[str], None] | None = None,
) -> tuple[list[Any], dict[str, Any]]:
    """Draw `count` distinct instances of a config, stratum by stratum, and report what was achieved.
    ShortageError if a stratum holds too few, SamplingError for a config that cannot be drawn."""
    instances: list[Any] = []
    report: dict[str, Any] = {}
    for stratum, wanted in config.counts(count).items():
        drawn = environment.generate(stratum, config.strata[stratum].knobs, wanted, source, held_out)
        instances += drawn.instances
        report[stratum] = drawn.report
        if progress and drawn.instances:
            counts = {name.replace("_", " "): number for name, number in drawn.report.items() if number}
            line = ", ".join(f"{number} {name}" for name, number in counts.items())
            progress(f"{environment.space.label(stratum)}: {line}")
    return instances, {config.key: report}


def attainable(
    environment: Environment,
    config: EnvConfig,
    count: int,
    source: Source,
    held_out: frozenset[str] = frozenset(),
) -> tuple[EnvConfig, list[str]]:
    """Return the nearest config of which `sample` can draw `count` instances, and what was changed.

    A stratum that is short keeps the instances it has, and knobs that ask for a label move to theirs; its
    missing share goes to the last stratum that is not short. SamplingError if all are short.
    """
    notes: list[str] = []
    short: set[str] = set()
    drawn: set[tuple[Any, ...]] = set()
    while True:
        for name, wanted in config.counts(count).items():
            knobs = config.strata[name].knobs
            key = (name, wanted, *knobs.items())
            if key in drawn:
                continue
            try:
                environment.generate(name, knobs, wanted, source, held_out)
            except ShortageError as error:
                short.add(name)
                config, note = _shrink(environment, config, name, error.instances, count, short)
                notes.append(note)
                break
            drawn.add(key)
        else:
            return config, notes


def _shrink(
    environment: Environment, config: EnvConfig, name: str, instances: list[Any], count: int, short: set[str]
) -> tuple[EnvConfig, str]:
    """Give a short stratum the share that it can fill, and the rest to the last one that is not short."""
    takers = [other for other in config.strata if other not in short]
    if not takers:
        remedy = "ask for fewer, or change the knobs"
        raise SamplingError(f"every {environment.space.noun} holds too few distinct instances; {remedy}")
    old, taker, share = config.strata[name], takers[-1], len(instances) / count
    new: dict[str, float] = {SHARE: share}
    for knob in environment.space[name].knobs:
        new[knob.name] = old[knob.name]
        if knob.label and instances:
            labelled = sum(knob.label.name in instance.labels for instance in instances)
            new[knob.name] = knob.clamped(labelled / len(instances))
    strata = dict(config.strata)
    strata[name] = Part.model_validate(new)
    moved = old.data_ratio - share
    strata[taker] = strata[taker].model_copy(update={SHARE: strata[taker].data_ratio + moved})
    changes = ", ".join(f"{key} {old[key]:g} -> {new[key]:.2g}" for key in new if new[key] != old[key])
    label = environment.space.label
    moved_to = f"{moved:.3g} of the data moved to {label(taker)}"
    note = f"{label(name)} has too few distinct instances: {changes}; {moved_to}"
    return config.model_copy(update={"strata": strata}), note
