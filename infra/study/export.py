"""Gather what a round's curricula left on disk into the files of `infra.study.records`."""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pyarrow as pa

from engineer.gate import START
from envgen.dataset import read_table
from envgen.errors import DataError, RunDirectoryError
from envgen.files import read_text, write_json
from infra.comparison.gather import finished
from infra.comparison.spec import SHARED as SHARED_DIRECTORY
from infra.comparison.spec import Child, ComparisonSpec
from infra.runs.run import Run
from infra.runs.stage import Stage
from infra.runs.steps import stage_directory
from infra.study.records import SHARED, Answers, SetName, StoredRound, StoredRun, read_instances, shared_policy, write_round
from infra.study.spec import PLAIN, TESTS, ArmGroup, Round, StudySpec

REGISTERED = "registered.json"
_COMPLETIONS = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("completion", pa.string(), nullable=False)])


class RoundFolder:
    """Where a round's runs are: `round-N/<group>/<curriculum>` and `round-N/tests/<policy>-<stage>` in the study's directory."""

    def __init__(self, study: Path, spec: StudySpec, one: Round) -> None:
        self.study, self.spec, self.round = study, spec, one
        self.path = study / one.folder

    def comparison(self, group: ArmGroup, seeds: tuple[int, ...]) -> Path:
        """Directory of a group's comparison over seeds that share a stage 0."""
        name = group.name or PLAIN
        return self.path / (name if self.round.stage_0 == "one" else f"{name}-s{seeds[0]}")

    def shared(self, seeds: tuple[int, ...]) -> Path:
        """Directory of the stage 0 that these seeds share, over all groups."""
        return self.comparison(self.round.groups[0], seeds) / SHARED_DIRECTORY

    def test(self, policy: str, stage: int) -> Path:
        """Directory of a policy's answers to the test suite."""
        return self.path / TESTS / (f"{policy}-stage-{stage:02d}" if stage > START else "start")

    def begun(self) -> bool:
        """Whether there is a curriculum."""
        return any(self.comparison(group, seeds).exists() for group, seeds in product(self.round.groups, self.round.batches))

    def runs(self) -> list[tuple[StoredRun, Path]]:
        """Every finished curriculum with its directory; RunDirectoryError names the first that is not."""
        found = []
        for group, seeds in product(self.round.groups, self.round.batches):
            comparison = self.spec.comparison(self.round, group, seeds)
            for child in comparison.children:
                directory = self.comparison(group, seeds) / child.name
                found.append((_run(group.arm(child.engineer.label), child, directory, comparison), directory))
        return found

    def shared_policies(self) -> list[tuple[str, int, Path]]:
        """(policy, stage, run directory) of the start policy and of every stage 0."""
        stages = [(shared_policy(0, self.round.stage_0, seeds[0]), 0, self.shared(seeds)) for seeds in self.round.batches]
        return [(SHARED, START, stages[0][2]), *stages]


def _run(arm: str, child: Child, directory: Path, comparison: ComparisonSpec) -> StoredRun:
    found = finished(directory, comparison.preset_of(child))
    if found is None:
        raise RunDirectoryError(f"{directory}: not finished; run the same command again")
    return StoredRun(arm=arm, seed=child.seed, results=Run(directory=directory).results, tokens=found.tokens, seconds=found.seconds)


def policies_to_test(folder: RoundFolder, runs: list[tuple[StoredRun, Path]]) -> list[tuple[str, int, Path]]:
    """(policy, stage, run directory) of every policy that is tested: the shared ones, then each final policy that a stage of its own made."""
    final = [(run.policy, run.results.final.stage, directory) for run, directory in runs]
    return [*folder.shared_policies(), *((policy, stage, directory) for policy, stage, directory in final if stage > 0)]


def register(folder: RoundFolder) -> None:
    """Write down what a round is before it begins; RunDirectoryError if it was begun as another, or nobody knows as what."""
    path, wanted = folder.path / REGISTERED, folder.spec.registration(folder.round)
    if not path.exists():
        if folder.begun():
            raise RunDirectoryError(f"{path}: is missing, though curricula of the round are there; put it back, or move {folder.path} away")
        return write_json(path, wanted)
    try:
        found = json.loads(read_text(path))
    except (DataError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise RunDirectoryError(f"{path}: is damaged; put it back, or move {folder.path} away")
    changed = [name for name in wanted if found.get(name) != wanted[name]]
    if changed:
        raise RunDirectoryError(
            f"{path}: this round was begun with another {', '.join(changed)}; go back to that, or register a new one, with its own number and seeds"
        )


def store_round(data: Path, folder: RoundFolder) -> None:
    """Write a finished round, whose policies are all tested, under `data`; the instances are there."""
    spec, one = folder.spec, folder.round
    runs = folder.runs()
    stored = StoredRound(
        study=spec.name,
        round=one.number,
        registered=spec.registered(one),
        code=tuple(sorted({_code(stage) for run, directory in runs for stage in _stages(run, directory)})),
        arms=tuple(arm for arm, _, _ in spec.arms(one)),
        seeds=one.seeds,
        stage_0=one.stage_0,
        runs=tuple(run for run, _ in runs),
    )
    instances = read_instances(data)
    ids: dict[SetName, list[str]] = {name: [instance.problem.id for instance in found] for name, found in instances.items()}
    answers = (_read(policy, stage, name, directory, ids[name]) for policy, stage, name, directory in _answered(folder, runs))
    write_round(data / one.folder, stored, instances, answers)


def _stages(run: StoredRun, directory: Path) -> list[Path]:
    """Directories of the stages that are a run's own."""
    return [stage_directory(directory, stage.stage) for stage in run.results.stages[1:]]


def _code(stage: Path) -> str:
    return json.loads((stage / Stage.manifest.name).read_bytes())["code"]


def _answered(folder: RoundFolder, runs: list[tuple[StoredRun, Path]]) -> Iterator[tuple[str, int, SetName, Path]]:
    """(policy, stage, set, directory of its rollouts) of all that is stored."""
    for policy, stage, directory in folder.shared_policies():
        yield policy, stage, "validation", directory / "start" if stage == START else stage_directory(directory, stage)
    for run, directory in runs:
        for number, stage in enumerate(_stages(run, directory), start=1):
            yield run.policy, number, "validation", stage
    for policy, stage, _ in policies_to_test(folder, runs):
        yield policy, stage, "test", folder.test(policy, stage)


def _read(policy: str, stage: int, name: SetName, directory: Path, ids: list[str]) -> Answers:
    table = read_table(directory / Stage.rollouts.name, _COMPLETIONS)
    if table["id"].to_pylist() != ids:
        raise DataError(
            f"{directory / Stage.rollouts.name}: answers other instances than those of the study's {name} set, or in another order; take the files of one run"
        )
    return Answers(policy=policy, stage=stage, set=name, completions=tuple(table["completion"].to_pylist()))
