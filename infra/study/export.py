"""Gather what a round's curricula left on disk into the files of `infra.study.records`."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from engineer.gate import START
from envgen.dataset import read_table
from envgen.errors import DataError, RunDirectoryError
from infra.comparison.gather import finished
from infra.comparison.spec import SHARED as SHARED_DIRECTORY
from infra.comparison.spec import Child, ComparisonSpec
from infra.run_directory import read_results
from infra.steps import stage_directory
from infra.study.records import SHARED, Answers, SetName, StoredRound, StoredRun, read_instances, write_round
from infra.study.spec import PLAIN, TESTS, ArmGroup, Round, StudySpec
from infra.versions import code_version

ROLLOUTS = "rollouts.parquet"
_COMPLETIONS = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("completion", pa.string(), nullable=False)])


class RoundFolder:
    """Where a round's runs are: `round-N/<group>/<curriculum>` and `round-N/tests/<policy>-<stage>` in the study's directory."""

    def __init__(self, study: Path, spec: StudySpec, one: Round) -> None:
        self.study, self.spec, self.round = study, spec, one
        self.path = study / one.folder

    def comparison(self, group: ArmGroup) -> Path:
        """Directory of a group's comparison."""
        return self.path / (group.name or PLAIN)

    def test(self, policy: str, stage: int) -> Path:
        """Directory of a policy's answers to the test suite."""
        return self.path / TESTS / (f"{policy}-stage-{stage:02d}" if stage > START else "start")

    def children(self) -> Iterator[tuple[ArmGroup, ComparisonSpec, Child]]:
        """Every curriculum of the round."""
        for group in self.round.groups:
            comparison = self.spec.comparison(self.round, group)
            for child in comparison.children:
                yield group, comparison, child

    def runs(self) -> list[tuple[StoredRun, Path]]:
        """Every finished curriculum with its directory; RunDirectoryError names the first that is not."""
        return [(self._run(group, comparison, child), self.comparison(group) / child.name) for group, comparison, child in self.children()]

    def policies(self) -> list[tuple[str, int, Path]]:
        """(policy, stage, run directory) of every policy that is tested: the shared ones, then each final policy that a stage of its own made."""
        shared = self.comparison(self.round.groups[0]) / SHARED_DIRECTORY
        final = [(run.policy, run.results.final.stage, directory) for run, directory in self.runs()]
        return [(SHARED, START, shared), (SHARED, 0, shared), *((policy, stage, directory) for policy, stage, directory in final if stage > 0)]

    def _run(self, group: ArmGroup, comparison: ComparisonSpec, child: Child) -> StoredRun:
        directory = self.comparison(group) / child.name
        found = finished(directory, comparison.preset_of(child))
        if found is None:
            raise RunDirectoryError(f"{directory}: not finished; run the same command again")
        results = read_results(directory)
        return StoredRun(arm=group.arm(child.engineer.label), seed=child.seed, results=results, tokens=found.tokens, seconds=found.seconds)


def store_round(data: Path, folder: RoundFolder) -> None:
    """Write a finished round, whose policies are all tested, under `data`; the instances are there."""
    spec, one = folder.spec, folder.round
    stored = StoredRound(
        study=spec.name,
        round=one.number,
        registered=spec.registered(one),
        code=code_version(),
        arms=tuple(arm for arm, _, _ in spec.arms(one)),
        seeds=one.seeds,
        runs=tuple(run for run, _ in folder.runs()),
    )
    instances = read_instances(data)
    ids: dict[SetName, list[str]] = {name: [instance.problem.id for instance in found] for name, found in instances.items()}
    write_round(data / one.folder, stored, instances, _answers(folder, ids))


def _answers(folder: RoundFolder, ids: dict[SetName, list[str]]) -> Iterator[Answers]:
    for policy, stage, name, directory in _answered(folder):
        yield _read(policy, stage, name, directory, ids[name])


def _answered(folder: RoundFolder) -> Iterator[tuple[str, int, SetName, Path]]:
    """(policy, stage, set, directory of its rollouts) of all that is stored."""
    shared = folder.comparison(folder.round.groups[0]) / SHARED_DIRECTORY
    yield SHARED, START, "validation", shared / "start"
    yield SHARED, 0, "validation", stage_directory(shared, 0)
    for run, directory in folder.runs():
        for stage in run.results.stages[1:]:
            yield run.policy, stage.stage, "validation", stage_directory(directory, stage.stage)
    for policy, stage, _ in folder.policies():
        yield policy, stage, "test", folder.test(policy, stage)


def _read(policy: str, stage: int, name: SetName, directory: Path, ids: list[str]) -> Answers:
    table = read_table(directory / ROLLOUTS, _COMPLETIONS)
    if table["id"].to_pylist() != ids:
        raise DataError(f"{directory / ROLLOUTS}: answers other instances than those of the study's {name} set, or in another order; take the files of one run")
    return Answers(policy=policy, stage=stage, set=name, completions=tuple(table["completion"].to_pylist()))
