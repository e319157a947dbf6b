"""How often a policy solves each row of a table, or instances of a generator, before anything is trained."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from envgen.breakdown import Breakdown
from envgen.dataset import write_table
from envgen.environment import Environment, Source
from envgen.files import digest
from infra.config.preset import Preset
from infra.config.settings import Settings
from infra.runs.files import BREAKDOWN, PARTIAL_ROLLOUTS
from infra.runs.lock import exclusive
from infra.runs.run import Run
from infra.runs.steps import policy_identity, run_step
from policy.checkpoints import resolve_model
from policy.rollouts import Rollout, breakdown_of
from tasks.run import answering, close_engine, rollouts_of

PROFILE = "profile.parquet"
GENERATED = 64
"""Instances of each stratum of a generator, unless a number is given."""


def measure(preset: Preset, samples: int, each: int | None) -> tuple[Path, Breakdown]:
    """Answer `each` instances of a stratum, or all rows of a table, `samples` times; return the file of pass
    rates, and the counts.

    A call that was cut off goes on with its answers, a finished one is not repeated.
    """
    environment, source = preset.task, resolve_model(preset.model)
    instances = _instances(preset, each)
    evaluation = preset.evaluation.model_copy(update={"temperature": preset.evaluation.temperature or 1.0})
    sampling = evaluation.sampling(preset.max_answer_tokens)
    asked = {"model": policy_identity(source), "chat_template_kwargs": preset.chat_template_kwargs}
    asked |= preset.engine.decides
    drawn = {"ids": digest([instance.id for instance in instances]), "version": environment.version}
    words = {"environment": preset.environment, "style": preset.prompt_style}
    decides = {**asked, **drawn, **words, "sampling": sampling, "samples": samples}
    directory = Settings().runs / "profiles" / f"{preset.name}-{digest(decides)[:8]}"
    run = Run(directory=directory)

    def body() -> None:
        style, kwargs = preset.prompt_style, preset.chat_template_kwargs
        several = [instance for instance in instances for _ in range(samples)]
        model = answering(source, environment, instances, style, preset.engine, run.log("engine"), kwargs)
        partial = directory / PARTIAL_ROLLOUTS
        rollouts = rollouts_of(model, asked, partial, environment, several, style, sampling)
        write_table(directory / PROFILE, pass_rates(environment, rollouts, samples))
        run.write(BREAKDOWN, breakdown_of(environment, rollouts, samples))

    with exclusive(directory):
        try:
            outputs = PROFILE, BREAKDOWN.name
            run_step(directory, "profile", decides, outputs, body, unfinished=PARTIAL_ROLLOUTS)
        finally:
            close_engine()
    return directory / PROFILE, run.read(BREAKDOWN)


def _instances(preset: Preset, each: int | None) -> list[Any]:
    """Return the instances of all strata, in order; ShortageError if a stratum has fewer than `each`."""
    environment, instances = preset.task, list[Any]()
    for name in preset.space.names:
        count = each or environment.capacity(name) or GENERATED
        source = Source(preset.seed, purpose="profile")
        knobs = preset.space.parts(preset.start_config)[name].knobs
        instances += environment.generate(name, knobs, count, source, frozenset()).instances
    return instances


def pass_rates(environment: Environment, rollouts: list[Rollout], samples: int) -> pa.Table:
    """Return a row for each instance, a table that `dataset` reads: prompt, answer, stratum, metadata,
    pass_rate, and the shares of its answers that were cut off or could not be read."""
    rows = []
    for start in range(0, len(rollouts), samples):
        part, instance = rollouts[start : start + samples], rollouts[start].instance
        verdicts = [rollout.verdict for rollout in part]
        unreadable = [verdict.category == environment.space.categories[0] for verdict in verdicts]
        rates = {
            "pass_rate": float(np.mean([verdict.valid for verdict in verdicts])),
            "truncated": float(np.mean([rollout.truncated for rollout in part])),
            "unreadable": float(np.mean(unreadable)),
        }
        texts = {"prompt": environment.prompt(instance, environment.styles[0])}
        texts |= {"answer": environment.reference(instance), "stratum": instance.stratum, "id": instance.id}
        rows.append({**getattr(instance, "payload", {}).get("metadata", {}), **texts, **rates})
    return pa.Table.from_pylist(rows)
