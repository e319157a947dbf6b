"""How often a policy solves each row of a table, or instances of a generator, before anything is trained."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from envgen.breakdown import Breakdown
from envgen.dataset import write_table
from envgen.environment import Environment, Source
from envgen.errors import DataError
from envgen.files import digest, read_json_lines, write_text
from envgen.table.files import prompt_of
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
    rates, and the counts. A call that was cut off is continued, a finished one is not repeated."""
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
    """Return a row for each instance, a table that `dataset` reads: prompt, answer, stratum, metadata, and
    the shares of its answers that are valid, were cut off, or could not be read."""
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


def profile_rollouts(rollouts: Path) -> tuple[Path, list[float]]:
    """Write the pass rates of NeMo-Gym's rollouts, a table that `dataset` reads; return its path, and them.

    Columns are prompt, pass_rate (mean reward), rollouts (their number), and the verifier's fields that all
    rollouts of a prompt share. DataError names the first line that is no rollout of a single turn with a
    reward. Format: https://docs.nvidia.com/nemo/gym/latest/"""
    rewards, shared = dict[str, list[float]](), dict[str, dict[str, Any]]()
    for line, rollout in read_json_lines(rollouts):
        try:
            prompt = prompt_of(rollout["responses_create_params"]["input"])
            reward = float(rollout["reward"])
            if not (prompt and math.isfinite(reward)):
                raise ValueError("has no prompt, or a reward that is no number")
        except (KeyError, TypeError, ValueError) as error:
            problem = f"lacks {error}" if isinstance(error, KeyError) else str(error)
            expected = "a rollout of NeMo-Gym with a single turn and a reward"
            raise DataError(f"{rollouts}: line {line}: {problem}; expected {expected}") from None
        fields = {
            name: value
            for name, value in rollout.items()
            if name not in ("responses_create_params", "response", "reward") and not name.startswith("_ng_")
        }
        common = shared.setdefault(prompt, fields).items()
        shared[prompt] = {name: value for name, value in common if fields.get(name) == value}
        rewards.setdefault(prompt, []).append(reward)
    if not rewards:
        raise DataError(f"{rollouts}: has no rollouts; give another file")
    rates = {prompt: float(np.mean(part)) for prompt, part in rewards.items()}
    own = {p: {"prompt": p, "pass_rate": rates[p], "rollouts": len(rewards[p])} for p in rewards}
    path = Settings().runs / "profiles" / f"{rollouts.stem}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(json.dumps(shared[p] | own[p]) + "\n" for p in own))
    return path, [*rates.values()]
