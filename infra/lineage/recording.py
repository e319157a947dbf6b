"""What MLflow is told of a curriculum: a run for it and for each stage, a LoggedModel a checkpoint."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from engineer.gate import BASE_POLICY
from engineer.proposal import shortened
from envgen.dataset import row_count
from infra.analysis.formats import config_changes
from infra.analysis.spec import SHARED, engineer_variant, reads_context, shared_policy
from infra.config.preset import Preset, resolved_json
from infra.config.settings import Settings
from infra.lineage.checkpoint_tags import CURRICULUM, PREFIX, Facts, quoted
from infra.lineage.columns import flat, scores
from infra.lineage.prompts import prompt_version
from infra.lineage.recorder import DataSetRef, Recorder
from infra.lineage.registry import name_best, withdraw
from infra.lineage.traces import Call, record_call, trace_id_of
from infra.runs.run import Run, RunRef
from infra.runs.stage import Directory, File, Stage
from infra.runs.steps import lock, read_record

RECORDED = PREFIX + "recorded"
"""Tag of a stage's run once all of it is recorded: the version of this code, the digest of the manifest."""
VERSION = 5
"""Raised by hand when a stage is recorded in another way."""
SERIES = ("reward", "valid", "optimal", "zero_variance", "entropy", "clipped", "mismatch", "mismatch_max")
_SHORT = {"preset.name", "preset.seed", "preset.engineer.name", "preset.engineer.variant"}
"""Parameters under short names.

MLflow's compare view opens with the first three in which curricula differ.
"""
LONGEST_TEXT = 1000
"""Characters of a tag that holds a text."""


@dataclass(frozen=True)
class _Record:
    """The record of a curriculum while stages are added to it."""

    recorder: Recorder
    run: RunRef
    key: str
    root: str
    """Id of the curriculum's run."""
    models: dict[tuple[int, str], str]
    """Stage and digest of a checkpoint -> its model id."""
    prompts: dict[int, dict[str, str]]
    """Stage -> name and version of the prompt that its proposal was asked for with."""

    def model(self, stage: int) -> str:
        """The model id of the checkpoint that a stage has now."""
        return self.models[stage, self.run.identity(stage)]

    @property
    def validation(self) -> DataSetRef:
        """The validation set."""
        return _data(self.run, Run.validation, f"{self.run.preset.name}-validation")

    def training(self, stage: int) -> DataSetRef:
        """The training data of a stage."""
        return _data(self.run.stage(stage), Stage.train, f"{self.run.name}-stage-{stage:02d}")


def record_stage(recorder: Recorder, run: RunRef, stage: int) -> str:
    """Record a stage, and those before it that are not recorded; the id of its run."""
    under = Settings().parent_run
    key = f"{run.curriculum.preset_digest[:16]}-{under + '-' if under else ''}{run.name}"
    known = recorder.runs(key)
    tags = {number: known[number].data.tags for number in range(stage + 1) if number in known}
    done = [number for number in tags if tags[number].get(RECORDED) == _recorded(run, number)]
    if len(done) > stage:
        return known[stage].info.run_id
    # The templates may have changed since: what was recorded of these proposals holds.
    prompts = {
        number: {name: of[name] for name in ("prompt", "prompt_version") if name in of}
        for number, of in tags.items()
        if of.get(RECORDED, "").endswith(run.stage(number).digest(Stage.manifest))
    }
    record = _Record(recorder, run, key, _root(recorder, run, key, under), recorder.models(key), prompts)
    if BASE_POLICY not in known or known[BASE_POLICY].data.tags.get(RECORDED) != _recorded(run, BASE_POLICY):
        recorder.inputs(record.root, {"validation": record.validation})
        _record_start(record)
    last = ""
    for number in range(stage + 1):
        last = known[number].info.run_id if number in done else _record_stage(record, number)
    for file in (Run.results, Run.report):
        recorder.artifact(record.root, run.path(file))
    recorder.finish(record.root, ended=_span(run, stage)[1])
    return last


def _root(recorder: Recorder, run: RunRef, key: str, under: str | None) -> str:
    columns = _columns(run.preset)
    resolved = flat({"preset": resolved_json(run.preset)})
    settings = {name: value for name, value in resolved.items() if name not in _SHORT}
    shared = under and run.name in (SHARED, shared_policy(0, "per-seed", run.preset.seed))
    tags = columns | {"level": "shared stage" if shared else "curriculum"}
    started = _span(run, 0)[0]
    return recorder.run(key, run.name, parent=under, tags=tags, params=columns | settings, started=started)


def _columns(preset: Preset) -> dict[str, str]:
    """What runs are compared by; the context variant only where the engineer reads the context."""
    engineer, reads = preset.engineer, reads_context(preset.engineer.name)
    return {
        "engineer variant": engineer_variant(engineer),
        "variant": engineer.variant if reads else "none",
        "engineer": engineer.name,
        "seed": str(preset.seed),
        "preset": preset.name,
    }


def _record_start(record: _Record) -> None:
    """The base policy and its evaluation, a run below the curriculum's: stages are measured against it."""
    run, recorder = record.run, record.recorder
    child = _child(record, BASE_POLICY, "base policy", "start")
    source = run.policy(BASE_POLICY)
    path = str(Path(source).resolve()) if Path(source).is_dir() else source
    model = _checkpoint(record, child, f"{run.name}-start", _facts(record, BASE_POLICY, path))
    recorder.inputs(child, {"validation": record.validation})
    rates = scores(run.preset.space, run.start.rollouts)
    recorder.scores(child, model, record.validation, rates, 0)
    # The first point of every curve: a step is how many stages were trained.
    recorder.metrics(record.root, {rate: [(0, value)] for rate, value in rates.items()})
    recorder.finish(child, {RECORDED: _recorded(run, BASE_POLICY)}, _span(run, BASE_POLICY)[1])


def _record_stage(record: _Record, stage: int) -> str:
    run, recorder, files, data = record.run, record.recorder, record.run.stage(stage), record.training(stage)
    gate, preset = files.gate, run.preset
    name = f"stage {stage} · {_columns(preset)['engineer variant']}"
    child = _child(record, stage, name, "stage", gate=gate.action)
    parent = record.model(run.parent(stage))
    recorder.inputs(child, {"training": data, "validation": record.validation}, parent)
    facts = _facts(record, stage, str(files.checkpoint.resolve()), parent=parent, gate=gate.action)
    model = _checkpoint(record, child, data.name, facts)
    rates, log = scores(preset.space, files.rollouts), files.train_log
    recorder.scores(child, model, record.validation, rates, stage)
    series = {
        f"train/{name}": [
            (step, value) for step, value in zip(log["step"], log[name], strict=True) if value is not None
        ]
        for name in SERIES
    }
    recorder.metrics(child, {name: points for name, points in series.items() if points})
    recorder.metrics(record.root, {rate: [(stage + 1, value)] for rate, value in rates.items()})
    with lock(Settings().runs / ".locks" / "registry.lock"):  # MLflow's search-then-create is not atomic
        record.prompts[stage] = _record_calls(record, stage, child)
        best = model if gate.best == stage else None
        withdraw(recorder, preset.name, record.key, stage, best)
        if best:
            tags = {CURRICULUM: quoted(record.key), "run": run.name, "stage": str(stage), **_columns(preset)}
            name_best(recorder, preset.name, best, rates["valid"], record.validation.digest, tags)
    shown = (
        Stage.config,
        Stage.breakdown,
        Stage.gate,
        Stage.proposal,
        Stage.manifest,
    )
    for file in shown:
        recorder.artifact(child, files.path(file))
    recorder.finish(child, {RECORDED: _recorded(run, stage), **record.prompts[stage]}, _span(run, stage)[1])
    return child


def _checkpoint(record: _Record, child: str, name: str, facts: Facts) -> str:
    """The model id of a checkpoint.

    Other weights are another model, so that the record of those before stays true.
    """
    key, step = f"{record.key}-checkpoint-{facts.stage}-{facts.digest}", max(facts.stage, 0)
    model = record.recorder.checkpoint(child, key, name, facts, step=step)
    record.models[facts.stage, facts.digest] = model
    return model


def _child(record: _Record, stage: int, name: str, level: str, **more: str) -> str:
    """The run of a stage.

    What may change when it is done again, `more`, is only tags: parameters stay as they are.
    """
    columns = {**_columns(record.run.preset), "stage": str(stage)}
    tags = {**columns, **more, "level": level, CURRICULUM: quoted(record.key), PREFIX + "stage": str(stage)}
    params = {**columns, "curriculum": record.run.name}
    return record.recorder.run(
        f"{record.key}-{level}-{stage}",
        name,
        parent=record.root,
        tags=tags,
        params=params,
        started=_span(record.run, stage)[0],
    )


def _span(run: RunRef, stage: int) -> tuple[datetime | None, datetime | None]:
    """When a stage, or the evaluation of the base policy, began and ended; None if nothing says so."""
    if stage == BASE_POLICY:
        evaluated = read_record(run.start.directory, "start")
        ended = datetime.fromtimestamp(run.start.path(Stage.rollouts).stat().st_mtime, UTC)
        return (ended - timedelta(seconds=evaluated.seconds), ended) if evaluated else (None, None)
    made = run.stage(stage).manifest
    if not made.get("finished"):
        return None, None
    ended = datetime.fromisoformat(made["finished"])
    return ended - timedelta(seconds=sum(made["seconds"].values())), ended


def _record_calls(record: _Record, stage: int, child: str) -> dict[str, str]:
    """A trace for a proposal that a model was asked for; name and version of the prompt, if one was."""
    run, files = record.run, record.run.stage(stage)
    proposal, preset, whom = files.proposal, run.preset, run.asked(stage)
    if not proposal.prompt:
        return {}
    wording = preset.effective_engineer().wording
    prompt = prompt_version(record.recorder, wording, preset.engineer.variant, record.prompts.get(stage))
    asked = None if whom is None else record.model(whom)
    stored = datetime.fromtimestamp(files.path(Stage.proposal).stat().st_mtime, UTC)
    tags = _columns(preset) | {"stage": str(stage)}
    record_call(record.recorder, Call(proposal, record.key, child, prompt, asked, stored, tags))
    record.recorder.client.link_prompt_version_to_run(child, prompt)
    return {"prompt": prompt.name, "prompt_version": str(prompt.version)}


def _facts(record: _Record, stage: int, path: str, **more: Any) -> Facts:
    """What a checkpoint was made from; of the base policy only what it is."""
    run, validation = record.run, record.validation
    made = (
        {}
        if stage == BASE_POLICY
        else {**_data_facts(record, stage), **(_design_facts(record, stage - 1) if stage else {})}
    )
    names = {"curriculum": record.key, "run": run.name, "preset": run.preset.name, "seed": run.preset.seed}
    evaluated = {"validation": validation.name, "validation_digest": validation.digest}
    about = {
        "stage": stage,
        "path": path,
        "digest": run.identity(stage),
        "validation_instances": _rows(validation),
    }
    return Facts.model_validate({**names, **about, **evaluated, **made, **more})


def _data_facts(record: _Record, stage: int) -> dict[str, Any]:
    run, data, changes = record.run, record.training(stage), "the default config"
    if stage:
        changes = config_changes(run.preset.space, run.config_of(stage - 1), run.config_of(stage))
    return {
        "dataset": data.name,
        "dataset_digest": data.digest,
        "instances": _rows(data),
        "config": run.stage(stage).digest(Stage.config),
        "changes": shortened(changes, LONGEST_TEXT),
        "resumed": ", ".join(f"step {step}" for step in run.stage(stage).resumed) or None,
    }


def _design_facts(record: _Record, stage: int) -> dict[str, Any]:
    """Who proposed the config of the stage after `stage`, what was shown, and who decided."""
    files = record.run.stage(stage)
    proposal, prompt, decision = files.proposal, record.prompts.get(stage, {}), files.decision
    facts = {
        "proposal": files.digest(Stage.proposal),
        "fallback": shortened(proposal.fallback, LONGEST_TEXT) if proposal.fallback else None,
        "engineer": proposal.engineer,
        "variant": proposal.variant,
        **prompt,
        "trace": trace_id_of(record.key, proposal) if prompt else None,
    }
    if decision is None:
        return facts
    return facts | {
        "decision": decision.decision,
        **{f"decision_{name}": getattr(decision, name) for name in ("edited", "by", "via")},
        "decision_at": f"{decision.decided_at:%Y-%m-%dT%H:%M:%SZ}",
        "decision_comment": shortened(decision.comment, LONGEST_TEXT),
    }


def _recorded(run: Run, stage: int) -> str:
    done = (
        run.start.digest(Stage.rollouts) if stage == BASE_POLICY else run.stage(stage).digest(Stage.manifest)
    )
    return f"{VERSION}-{done}"


def _data(directory: Directory, file: File, name: str) -> DataSetRef:
    return DataSetRef(name=name, path=directory.path(file), digest=directory.digest(file))


def _rows(data: DataSetRef) -> int:
    return row_count(data.path)
