"""The files that `damage.py` damages: how each is made, and the reader of the product that reads it."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / "tasks"), str(TESTS / "infra" / "analysis" / "study")]

from finished_runs import finished_run, instances, rollouts
from study_rounds import SPEC, small_sets, write

from envgen.config import EnvConfig
from envgen.dataset import NAME, read_dataset, write_dataset
from envgen.families import FamilySpec
from envgen.family import Source
from envgen.mapf import benchmark
from envgen.mapf.commands.verify import verdict_lines
from envgen.mapf.formats import problem_line, read_boards, read_problems
from envgen.mapf.prompts import PromptStyle, answer
from envgen.sampling import sample
from envgen.yaml_files import read_env_config
from infra.analysis.study.records import ANSWERS, CURRICULA, read_round
from infra.config.preset import PRESETS, load_preset
from infra.runs.remote import INDEX, pull, push
from infra.runs.run import Run, RunRef
from infra.runs.stage import Stage
from infra.runs.steps import policy_identity, run_step
from policy.checkpoints import TINY_DIRECTORY
from policy.grpo.launch import LAUNCH, Sharding
from policy.grpo.train_log import read_train_log
from policy.grpo.train_spec import TrainingSettings
from policy.rollouts import read_rollouts, write_rollouts

RECORDED = (
    *(Stage.config, Stage.breakdown, Stage.gate, Stage.changes, Stage.candidates, Stage.proposal),
    *(Stage.pilots, Stage.rollouts, Stage.train, Stage.train_log),
)
"""Files of a stage of which a step records the digest."""


class Kind(NamedTuple):
    """A file, and what reads it."""

    make: Callable[[Path], Path]
    """Makes the file, and what its reader wants besides, in an empty folder."""
    read: Callable[[Path], Any]
    """What the product understands of the file; an `EnvwrightError` is its message. None means that the file
    was refused with a warning."""
    known: bool = False
    """Whether somebody knows the digest of the file, so that it is never read as anything else."""


def _data(path: Path) -> Path:
    found = instances()
    names = [f"board {number}" for number in range(len(found))]
    subsets = ["normal"] * len(found)
    extra = [(NAME, names), (benchmark.SUBSET, subsets)]
    write_dataset(path, found, PromptStyle.COMPACT, {"seed": 3}, extra=extra)
    return path


def _sums(folder: Path) -> Path:
    family = FamilySpec(name="sums").resolved()
    parts = {name: {"data_ratio": 1 / 3, "digits": 2, "carry_ratio": 0.5} for name in ("2", "3", "4")}
    drawn = sample(family.load(), EnvConfig.model_validate({"terms": parts}), 24, Source(0))[0]
    write_dataset(folder / "sums.parquet", drawn, "plain", {}, family)
    return folder / "sums.parquet"


def _answers(folder: Path) -> Path:
    write_rollouts(folder / "rollouts.parquet", rollouts(instances(), 4), PromptStyle.COMPACT)
    return folder / "rollouts.parquet"


def _problem_lines(folder: Path) -> Path:
    lines = [json.dumps(problem_line(one.problem)) for one in instances()]
    (folder / "problems.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "problems.jsonl"


def _answer_lines(folder: Path) -> Path:
    _data(folder / "data.parquet")
    lines = [
        {"id": f"board {number}", "completion": answer(one.solution.plan)}
        for number, one in enumerate(instances())
    ]
    (folder / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder / "answers.jsonl"


def _run(folder: Path) -> RunRef:
    return finished_run(folder / "runs" / "mine", (3, 5))


def _recorded_stage(folder: Path) -> Stage:
    """A stage whose files a step has recorded."""
    stage = _run(folder).stage(0)
    run_step(stage.directory, "gate", {}, tuple(file.name for file in RECORDED), lambda: None)
    return stage


def _of_stage(name: str) -> Kind:
    """A file of a stage, by its attribute."""
    return Kind(
        lambda folder: _recorded_stage(folder).path(getattr(Stage, name)),
        lambda path: getattr(Stage(directory=path.parent), name),
        known=True,
    )


def _suite(folder: Path) -> Path:
    return Path(shutil.copy(benchmark.SUITE, folder / "benchmark.parquet"))


def _read_suite(path: Path) -> Any:
    benchmark.SUITE = path
    benchmark._identities.cache_clear()
    return benchmark.suite_identities(3), benchmark.load_suite()


def _round(folder: Path, name: str) -> Path:
    write(folder, SPEC, 1, sets=small_sets())
    return folder / "round-1" / name


def _read_round(path: Path) -> Any:
    found = read_round(path.parents[1], 1)
    outcomes = [
        (key, {name: one.tolist() for name, one in rates.items()}) for key, rates in found.outcomes.items()
    ]
    return found.stored, outcomes


def _index(folder: Path) -> Path:
    run = _run(folder)
    files = {file.name: run.stage(0).digest(file) for file in RECORDED}
    run.stage(0).write(Stage.manifest, {"stage": 0, "seconds": {}, "files": files})
    push(run.directory, (folder / "copies").as_uri())
    return folder / "copies" / "mine" / "stage-00" / INDEX


def _pull(path: Path) -> Any:
    back = path.parents[3] / "back" / "mine"
    shutil.rmtree(back.parent, ignore_errors=True)
    if "stage-00" not in pull(path.parents[2].as_uri(), back):
        return None
    return [(back / "stage-00" / file.name).read_bytes() for file in RECORDED]


def _checkpoint(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        stage = Stage(directory=folder / "stage-00")
        shutil.copytree(TINY_DIRECTORY, stage.checkpoint)
        return stage.checkpoint / name

    return make


def _recorded_checkpoint(folder: Path) -> Path:
    path = _checkpoint("model.safetensors")(folder)
    run_step(path.parents[1], "train", {}, (path.parent.name,), lambda: None)
    return path


def _load(path: Path) -> Any:
    from policy.chat.transformers_model import load

    model, tokenizer = load(str(path.parent))
    weights = [(name, value.dtype, value.double().sum().item()) for name, value in model.named_parameters()]
    return weights, tokenizer("R0C0 -> R0C1")["input_ids"]


def _load_recorded(path: Path) -> Any:
    policy_identity(str(path.parent))
    return _load(path)


def _copied(source: Path) -> Callable[[Path], Path]:
    return lambda folder: Path(shutil.copy(source, folder / source.name))


def _config(folder: Path) -> Path:
    knobs = "{data_ratio: 0.5, hole_ratio: 0.3, wait_ratio: 0.25}"
    (folder / "config.yaml").write_text(f"sizes:\n  3: {knobs}\n  4: {knobs}\n")
    return folder / "config.yaml"


KINDS: dict[str, Kind] = {
    "Parquet: data set": Kind(lambda folder: _data(folder / "data.parquet"), read_boards),
    "Parquet: benchmark": Kind(lambda folder: _data(folder / "data.parquet"), benchmark.read_items),
    "Parquet: data set of sums": Kind(_sums, read_dataset),
    "Parquet: rollouts": Kind(_answers, read_rollouts),
    "Parquet: training log": Kind(lambda folder: _run(folder).stage(0).path(Stage.train_log), read_train_log),
    "Parquet: answers of a study": Kind(lambda folder: _round(folder, ANSWERS), _read_round),
    "Parquet: benchmark suite": Kind(_suite, _read_suite, known=True),
    "Parquet: rollouts of a stage": _of_stage("rollouts"),
    "Parquet: training data of a stage": _of_stage("train"),
    "Parquet: training log of a stage": _of_stage("train_log"),
    "JSON: problems": Kind(_problem_lines, read_problems),
    "JSON: answers": Kind(_answer_lines, lambda path: verdict_lines(path.with_name("data.parquet"), path)),
    "JSON: curriculum of a run": Kind(
        lambda folder: _run(folder).path(Run.curriculum), lambda path: Run(directory=path.parent).curriculum
    ),
    "JSON: curricula of a study": Kind(lambda folder: _round(folder, CURRICULA), _read_round),
    "JSON: breakdown of a stage": _of_stage("breakdown"),
    "JSON: gate of a stage": _of_stage("gate"),
    "JSON: candidates of a stage": _of_stage("candidates"),
    "JSON: proposal of a stage": _of_stage("proposal"),
    "JSON: index of a copy": Kind(_index, _pull, known=True),
    "JSON: config of a checkpoint": Kind(_checkpoint("config.json"), _load),
    "JSON: tokenizer of a checkpoint": Kind(_checkpoint("tokenizer.json"), _load),
    "YAML: preset": Kind(_copied(PRESETS / "micro.yaml"), lambda path: load_preset(str(path))),
    "YAML: environment config": Kind(_config, lambda path: read_env_config(path, EnvConfig)),
    "YAML: launch config": Kind(
        _copied(LAUNCH / "zero3.yaml"), lambda path: Sharding.of(TrainingSettings(launch=str(path)))
    ),
    "safetensors: weights": Kind(_checkpoint("model.safetensors"), _load),
    "safetensors: weights of a stage": Kind(_recorded_checkpoint, _load_recorded, known=True),
}
