"""Record a finished stage in MLflow."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from prefect import task

from engineer.gate import START
from engineer.proposal import shortened
from engineer.registry import find_designer
from envgen.files import file_digest
from infra.lineage import DataSetRef, Recorder, flat
from infra.lineage.columns import scores
from infra.lineage.facts import CURRICULUM, PREFIX, Facts, config_changes, quoted
from infra.lineage.prompts import prompt_version
from infra.lineage.registry import name_best, withdraw
from infra.lineage.traces import Call, record_call, trace_id_of
from infra.preset import Preset, resolved_json
from infra.runs.decision import PROPOSAL, read_decision
from infra.runs.run import Curriculum
from infra.runs.steps import lock
from infra.settings import Settings, without_password
from policy.rollouts import read_rollouts
from policy.train_log import read_train_log
from tasks.design import CANDIDATES, read_candidates, read_proposal
from tasks.gate import config_of
from tasks.learn import ROLLOUTS
from tasks.pilot import PILOT
from tasks.publish import MANIFEST
from tasks.run import GATE, RunRef, log, parent_stage, policy_identity, read_gate, task_options

RECORDED = PREFIX + "recorded"
"""Tag of a stage's run once all of it is recorded: the version of this code, and the digest of the manifest."""
VERSION = 2
"""Raised by hand when a stage is recorded in another way."""
SERIES = ("reward", "valid", "optimal", "zero_variance", "entropy", "clipped", "mismatch", "mismatch_max")
_SHORT = {"preset.name", "preset.seed", "preset.design.designer", "preset.design.variant"}
"""Parameters that curricula have under short names: MLflow's compare view opens with the first three in which they differ."""
LONGEST_TEXT = 1000
"""Characters of a tag that holds a text."""
_UNRECORDED = ".unrecorded"
"""In the directory of a stage that MLflow does not know yet."""


@task(**task_options("lineage"))
def record_lineage(run: RunRef, curriculum: Curriculum, stage: int) -> dict[str, str]:
    """Record a finished stage in MLflow; where to read of it there. If MLflow cannot be reached the run goes on, and the next resume records it."""
    settings, marker = Settings(), run.stage(stage) / _UNRECORDED
    marker.touch()
    try:
        recorder = Recorder(settings.tracking_uri, settings.runs / "mlartifacts")
        recorded = _record(recorder, run, curriculum, stage)
        marker.unlink()
        return recorder.addresses(recorded)
    except Exception as error:  # a lost record is not worth a lost run
        place = without_password(settings.tracking_uri)
        log.warning("stage %d: lineage not recorded at %s: %s; run the same command again to record it", stage, place, without_password(error))
        return {}


def unrecorded(directory: Path) -> bool:
    """Whether MLflow lacks a finished stage of a run directory."""
    return any(directory.glob(f"stage-*/{_UNRECORDED}"))


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
        return self.models[stage, policy_identity(self.run, stage)]

    @property
    def validation(self) -> DataSetRef:
        """The validation set."""
        return DataSetRef(name=f"{self.run.preset.name}-validation", path=self.run.validation, digest=file_digest(self.run.validation))

    def training(self, stage: int) -> DataSetRef:
        """The training data of a stage."""
        path = self.run.stage(stage) / "train.parquet"
        return DataSetRef(name=f"{self.run.name}-stage-{stage:02d}", path=path, digest=file_digest(path))


def _record(recorder: Recorder, run: RunRef, curriculum: Curriculum, stage: int) -> str:
    """Record a stage, and those before it that are not recorded; the id of its run."""
    under = Settings().parent_run
    key = f"{curriculum.preset_digest[:16]}-{under + '-' if under else ''}{run.name}"
    known = recorder.runs(key)
    tags = {number: known[number].data.tags for number in range(stage + 1) if number in known}
    done = [number for number in tags if tags[number].get(RECORDED) == _recorded(run, number)]
    if len(done) > stage:
        return known[stage].info.run_id
    record = _Record(
        recorder=recorder,
        run=run,
        key=key,
        root=_root(recorder, run, key, under),
        models=recorder.models(key),
        # The templates may have changed since: what was recorded of these proposals holds.
        prompts={number: _named(of, ("prompt", "prompt_version")) for number, of in tags.items() if of.get(RECORDED, "").endswith(_manifest(run, number))},
    )
    if START not in known or known[START].data.tags.get(RECORDED) != _start_recorded(run):
        recorder.inputs(record.root, {"validation": record.validation})
        _record_start(record)
    last = ""
    for number in range(stage + 1):
        last = known[number].info.run_id if number in done else _record_stage(record, number)
    for name in ("results.json", "report.html"):
        recorder.artifact(record.root, run.directory / name)
    recorder.finish(record.root)
    return last


def _root(recorder: Recorder, run: RunRef, key: str, under: str | None) -> str:
    preset = run.preset
    tags = _columns(preset) | {"level": "curriculum"}
    settings = {name: value for name, value in flat({"preset": resolved_json(preset)}).items() if name not in _SHORT}
    return recorder.run(key, run.name, parent=under, tags=tags, params=_columns(preset) | settings)


def _columns(preset: Preset) -> dict[str, str]:
    """What runs are compared by."""
    return {"variant": preset.design.variant, "designer": preset.design.designer, "seed": str(preset.seed), "preset": preset.name}


def _record_start(record: _Record) -> None:
    """The start policy and its evaluation, as a run of its own below the curriculum's: what the stages are measured against."""
    run, recorder = record.run, record.recorder
    child = _child(record, START, "start policy", "start")
    source = run.policy(START)
    path = Path(source).resolve() if Path(source).is_dir() else source
    model = _checkpoint(record, child, f"{run.name}-start", _facts(record, START, str(path)), step=0)
    recorder.inputs(child, {"validation": record.validation})
    recorder.scores(child, model, record.validation, scores(read_rollouts(run.start / ROLLOUTS)), 0)
    recorder.finish(child, {RECORDED: _start_recorded(run)})


def _record_stage(record: _Record, stage: int) -> str:
    run, recorder, directory = record.run, record.recorder, record.run.stage(stage)
    gate = read_gate(run, stage)
    name = f"stage {stage} · {run.preset.design.variant} · {run.preset.design.designer}"
    child = _child(record, stage, name, "stage", gate=gate.action)
    parent = record.model(parent_stage(run, stage))
    recorder.inputs(child, {"training": record.training(stage), "validation": record.validation}, parent)
    facts = _facts(record, stage, str((directory / "checkpoint").resolve()), parent=parent, gate=gate.action)
    model = _checkpoint(record, child, f"{run.name}-stage-{stage:02d}", facts, step=stage)
    rates = scores(read_rollouts(directory / ROLLOUTS))
    recorder.scores(child, model, record.validation, rates, stage)
    table = read_train_log(directory / "train_log.parquet")
    series = {name: [(step, value) for step, value in zip(table["step"], table[name], strict=True) if value is not None] for name in SERIES}
    recorder.metrics(child, {f"train/{name}": points for name, points in series.items() if points})
    recorder.metrics(record.root, {rate: [(stage, value)] for rate, value in rates.items()})
    with lock(Settings().runs / ".locks" / "registry.lock"):  # MLflow's search-then-create is not atomic
        record.prompts[stage] = _record_calls(record, stage, child)
        best = model if gate.best == stage else None
        withdraw(recorder, run.preset.name, record.key, stage, best)
        if best:
            tags = {CURRICULUM: quoted(record.key), "run": run.name, "stage": str(stage), **_columns(run.preset)}
            name_best(recorder, run.preset.name, best, rates["valid"], record.validation.digest, tags)
    for file in ("config.json", "breakdown.json", GATE, CANDIDATES, PILOT, PROPOSAL, MANIFEST):
        recorder.artifact(child, directory / file)
    recorder.finish(child, {RECORDED: _recorded(run, stage), **record.prompts[stage]})
    return child


def _checkpoint(record: _Record, child: str, name: str, facts: Facts, step: int) -> str:
    """The model id of a checkpoint: other weights are another model, so that the record of those that a stage had before stays true."""
    digest = facts.digest
    record.models[facts.stage, digest] = record.recorder.checkpoint(child, f"{record.key}-checkpoint-{facts.stage}-{digest}", name, facts, step=step)
    return record.models[facts.stage, digest]


def _child(record: _Record, stage: int, name: str, level: str, **more: str) -> str:
    """The run of a stage. What may change when the stage is done again, `more`, is only tags: parameters stay as they are."""
    columns = {**_columns(record.run.preset), "stage": str(stage)}
    tags = {**columns, **more, "level": level, CURRICULUM: quoted(record.key), PREFIX + "stage": str(stage)}
    return record.recorder.run(f"{record.key}-{level}-{stage}", name, parent=record.root, tags=tags, params={**columns, "curriculum": record.run.name})


def _record_calls(record: _Record, stage: int, child: str) -> dict[str, str]:
    """A trace for every proposal that a model was asked for; name and version of the prompt, if one was."""
    run = record.run
    proposals = [one.proposal for one in read_candidates(run, stage).candidates]
    if not any(proposal.prompt for proposal in proposals):
        return {}
    prompt = prompt_version(record.recorder, run.preset.asked_design().wording, run.preset.design.variant, record.prompts.get(stage))
    whom = {"checkpoint": stage, "base": START}.get(find_designer(run.preset.design.designer).asks or "")
    asked = None if whom is None else record.model(whom)
    chosen = proposals.index(read_proposal(run, stage))
    stored = datetime.fromtimestamp((run.stage(stage) / CANDIDATES).stat().st_mtime, UTC)
    for number, proposal in enumerate(proposals):
        if not proposal.prompt:
            continue
        tags = {**_columns(run.preset), "stage": str(stage), "candidate": str(number + 1), "chosen": str(number == chosen).lower()}
        record_call(record.recorder, Call(proposal, record.key, number, child, prompt, asked, stored, tags))
    record.recorder.client.link_prompt_version_to_run(child, prompt)
    return {"prompt": prompt.name, "prompt_version": str(prompt.version)}


def _facts(record: _Record, stage: int, path: str, **more: Any) -> Facts:
    """What a checkpoint was made from; of the start policy only what it is."""
    run = record.run
    names = {"curriculum": record.key, "run": run.name, "preset": run.preset.name, "seed": run.preset.seed, "digest": policy_identity(run, stage)}
    evaluated = {"validation": record.validation.name, "validation_digest": record.validation.digest, "validation_instances": _rows(run.validation)}
    made = {} if stage == START else {**_data_facts(record, stage), **(_design_facts(record, stage - 1) if stage else {})}
    return Facts.model_validate({**names, "stage": stage, "path": path, **evaluated, **made, **more})


def _data_facts(record: _Record, stage: int) -> dict[str, Any]:
    run, data = record.run, record.training(stage)
    before = config_of(run, stage - 1) if stage else None
    return {
        "dataset": data.name,
        "dataset_digest": data.digest,
        "instances": _rows(data.path),
        "config": file_digest(run.stage(stage) / "config.json"),
        "changes": shortened(config_changes(before, config_of(run, stage)), LONGEST_TEXT) if before else "the default config",
    }


def _design_facts(record: _Record, stage: int) -> dict[str, Any]:
    """Who proposed the config of the stage after `stage`, what was shown, and who decided."""
    run, proposal = record.run, read_proposal(record.run, stage)
    prompt, candidates = record.prompts.get(stage, {}), [one.proposal for one in read_candidates(run, stage).candidates]
    return {
        "proposal": file_digest(run.stage(stage) / PROPOSAL),
        "fallback": shortened(proposal.fallback, LONGEST_TEXT) if proposal.fallback else None,
        "designer": proposal.designer,
        "variant": proposal.variant,
        **prompt,
        "trace": trace_id_of(record.key, candidates.index(proposal), proposal) if prompt else None,
        **_decision_facts(run.stage(stage)),
    }


def _decision_facts(directory: Path) -> dict[str, Any]:
    decision = read_decision(directory)
    if decision is None:
        return {}
    told = {f"decision_{name}": getattr(decision, name) for name in ("edited", "by", "via")}
    return {
        "decision": decision.decision,
        **told,
        "decision_at": f"{decision.decided_at:%Y-%m-%dT%H:%M:%SZ}",
        "decision_comment": shortened(decision.comment, LONGEST_TEXT),
    }


def _recorded(run: RunRef, stage: int) -> str:
    return f"{VERSION}-{_manifest(run, stage)}"


def _start_recorded(run: RunRef) -> str:
    return f"{VERSION}-{file_digest(run.start / ROLLOUTS)}"


def _manifest(run: RunRef, stage: int) -> str:
    return file_digest(run.stage(stage) / MANIFEST)


def _rows(path: Path) -> int:
    return pq.read_metadata(path).num_rows


def _named(tags: dict[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: tags[name] for name in names if name in tags}
