"""Gather what the curricula of a round left on disk into the files of `infra.analysis.study.records`.

A round is a comparison in the study's directory, `round-N`; answers to the test suite are in `round-N/tests`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from engineer.gate import BASE_POLICY
from envgen.dataset import read_table
from envgen.errors import DataError
from infra.analysis.gather import ended
from infra.analysis.spec import ComparisonSpec, shared_policy
from infra.analysis.study.records import (
    Answers,
    SetName,
    StoredRound,
    StoredRun,
    read_answers,
    read_instances,
    stored_seeds,
    write_round,
)
from infra.analysis.study.spec import Round, StudySpec
from infra.runs.run import Run
from infra.runs.stage import Evaluation

_FIELDS = [pa.field(name, pa.string(), nullable=False) for name in ("id", "completion")]


@dataclass(frozen=True)
class RoundFolder:
    """Where a round's runs are."""

    study: Path
    spec: StudySpec
    round: Round
    seeds: tuple[int, ...]
    """Those of the round that are run there."""

    @property
    def path(self) -> Path:
        """The directory of its comparison."""
        return self.study / self.round.folder

    @property
    def comparison(self) -> ComparisonSpec:
        """Its curricula, under this directory."""
        found = {"name": str(self.path), "seeds": self.seeds}
        return self.spec.comparison(self.round).model_copy(update=found)

    def test(self, policy: str, stage: int) -> Evaluation:
        """A policy's answers to the test suite."""
        name = "start" if stage == BASE_POLICY else f"{policy}-stage-{stage:02d}"
        return Evaluation(directory=self.path / "tests" / name)

    def runs(self) -> list[StoredRun]:
        """Every finished curriculum; RunDirectoryError names the first that is not."""
        stored, spec = [], self.comparison
        for child in spec.children:
            directory = self.path / child.name
            found = ended(directory, spec.preset_of(child))
            who = {"arm": child.arm.label, "seed": child.seed, "results": Run(directory=directory).results}
            stored.append(StoredRun(**who, tokens=dict(found.tokens), seconds=found.seconds))
        return stored

    def run(self, policy: str, stage: int) -> Run:
        """The curriculum that made a stage of a policy; for -1, one that evaluated the base policy."""
        name = self.comparison.root(self.seeds[0]) if stage == BASE_POLICY else policy
        return Run(directory=self.path / name)

    def evaluated(self, policy: str, stage: int) -> Evaluation:
        """The evaluation of a stage of a policy, -1 for the base policy, on the validation set."""
        return self.run(policy, stage).evaluation(stage)


def policies_to_test(folder: RoundFolder, runs: list[StoredRun]) -> list[tuple[str, int]]:
    """(policy, stage) of all that is tested: base policy, every stage 0, every later final policy."""
    shared = [
        (shared_policy(stage, folder.round.stage_0, seed), stage)
        for stage in (BASE_POLICY, 0)
        for seed in folder.seeds
    ]
    final = [(run.policy, run.results.final.stage) for run in runs]
    return [*dict.fromkeys(shared), *((policy, stage) for policy, stage in final if stage > 0)]


def store_round(data: Path, folder: RoundFolder) -> None:
    """Write seeds of a round, whose policies are all tested, under `data`, beside those that are there; the
    instances are there."""
    one, runs = folder.round, folder.runs()
    trained = [(run.policy, stage.stage) for run in runs for stage in run.results.stages[1:]]
    stored = StoredRound(
        study=folder.spec.name,
        round=one.number,
        registered=folder.spec.registered(one),
        code=tuple(sorted({folder.run(*stage).stage(stage[1]).manifest["code"] for stage in trained})),
        arms=tuple(folder.spec.arms(one)),
        seeds=folder.seeds,
        stage_0=one.stage_0,
        runs=tuple(runs),
    )
    tested = policies_to_test(folder, runs)
    validated = [(policy, stage) for policy, stage in tested if stage <= 0] + trained
    answered: list[tuple[SetName, str, int, Evaluation]] = [
        *(("validation", policy, stage, folder.evaluated(policy, stage)) for policy, stage in validated),
        *(("test", policy, stage, folder.test(policy, stage)) for policy, stage in tested),
    ]
    ids = {name: [instance.id for instance in found] for name, found in read_instances(data).items()}
    answers = [
        Answers(policy, stage, name, _completions(evaluation, name, ids[name]))
        for name, policy, stage, evaluation in answered
    ]
    add_round(data, folder.spec, one, stored, answers)


def add_round(
    data: Path, spec: StudySpec, one: Round, stored: StoredRound, answers: Sequence[Answers]
) -> None:
    """Write seeds of a round under `data`, where the instances are; seeds that are there already stay.

    DataError if they were run under another registration than the study's file has now.
    """
    found = {run.policy: run for run in stored.runs}
    every = {(answer.policy, answer.stage, answer.set): answer for answer in answers}
    code = {*stored.code}
    if stored_seeds(data, one.number):
        before, earlier = read_answers(data, one.number)
        found |= {run.policy: run for run in before.runs}
        every |= {(answer.policy, answer.stage, answer.set): answer for answer in earlier}
        code |= {*before.code}
        _check_registered(data, spec, one, before)
    _check_registered(data, spec, one, stored)
    seeds = {run.seed for run in found.values()}
    together = {
        "seeds": tuple(seed for seed in one.seeds if seed in seeds),
        "runs": tuple(sorted(found.values(), key=lambda run: one.seeds.index(run.seed))),
        "code": tuple(sorted(code)),
    }
    ordered = [every[key] for key in sorted(every)]
    write_round(data / one.folder, stored.model_copy(update=together), read_instances(data), ordered)


def take_over(data: Path, spec: StudySpec, one: Round, other: Path) -> None:
    """Add what another folder has stored of a round; nothing if it holds nothing of it.

    DataError if it answered other instances, or was run under another registration.
    """
    if not stored_seeds(other, one.number):
        return
    theirs = read_instances(other)
    for name, found in read_instances(data).items():
        if [instance.id for instance in theirs[name]] != [instance.id for instance in found]:
            raise DataError(
                f"{other / f'{name}.parquet'}: has other instances than study {spec.name}; give the folder of"
                " its own data"
            )
    add_round(data, spec, one, *read_answers(other, one.number))


def _check_registered(folder: Path, spec: StudySpec, one: Round, stored: StoredRound) -> None:
    if stored.registered != spec.registered(one):
        raise DataError(
            f"{folder}: round {one.number} was registered as {stored.registered[:12]}, and study {spec.name}"
            f" says {spec.registered(one)[:12]} now; go back to that file, or store under another folder"
        )


def _completions(evaluation: Evaluation, name: SetName, ids: list[str]) -> tuple[str, ...]:
    path = evaluation.path(Evaluation.rollouts)
    table = read_table(path, pa.schema(_FIELDS))
    if table["id"].to_pylist() != ids:
        raise DataError(
            f"{path}: answers other instances than those of the study's {name} set, or in another order; "
            "take the files of one run"
        )
    return tuple(table["completion"].to_pylist())
