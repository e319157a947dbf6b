"""Test the policies of a study, and store what its tables follow from."""

from pathlib import Path

from prefect import task

from engineer.gate import BASE_POLICY
from envgen.dataset import write_dataset
from envgen.families import FamilySpec
from infra.analysis.benchmark.spec import BenchmarkSpec
from infra.analysis.study.export import RoundFolder, policies_to_test, store_round
from infra.analysis.study.spec import StudySpec
from infra.config.preset import load_preset
from infra.runs.data import validation_instances
from infra.runs.steps import run_step
from policy.chat.engine_config import EngineConfig
from policy.checkpoints import resolve_model
from policy.devices import visible_devices
from tasks.benchmark import answer_items, read_benchmark
from tasks.data import environment
from tasks.run import log, task_options


@task(**task_options("study-instances"))
def make_instances(data: Path, spec: StudySpec) -> None:
    """Write `test.parquet` and `validation.parquet`, the same for all rounds."""
    preset, suite = load_preset(spec.preset), spec.suite
    # Of its options a test may be what the preset leaves out.
    family = FamilySpec(name=preset.family.name)

    def body() -> None:
        for name, instances in (("test", suite.draw()), ("validation", validation_instances(preset))):
            log.info("%s set: %d instances", name, len(instances))
            facts = {"study": spec.name, "test": suite.model_dump(mode="json")}
            write_dataset(data / f"{name}.parquet", instances, preset.prompt_style, facts, family)

    decides = {"test": suite, "validation": preset.validation, **environment(preset)}
    run_step(data, "study-instances", decides, ("test.parquet", "validation.parquet"), body)


@task(**task_options("study-test"))
def answer_test_suite(data: Path, folder: RoundFolder, jobs: int) -> None:
    """Answers of every final policy, the base policy and every stage 0 to the test suite; found where they
    are there."""
    preset = folder.comparison.preset
    engine = preset.engine.model_copy(update={"replicas": replicas_for(jobs, preset.engine)})
    asked = BenchmarkSpec(
        model=preset.model,
        data=str((data / "test.parquet").resolve()),
        preset="",
        limit=None,
        style=preset.prompt_style,
        answer_tokens=folder.spec.suite.answer_tokens,
        engine=engine,
    )
    items = read_benchmark(asked)
    policies = policies_to_test(folder, folder.runs())
    for number, (policy, stage) in enumerate(policies, start=1):
        log.info("test suite: %s, stage %d (%d of %d)", policy, stage, number, len(policies))
        trained = folder.run(policy, stage).stage(max(stage, 0)).checkpoint
        source = resolve_model(preset.model) if stage == BASE_POLICY else str(trained.resolve())
        answer_items(folder.test(policy, stage).directory, asked.model_copy(update={"model": source}), items)


def replicas_for(jobs: int, engine: EngineConfig) -> int:
    """Replicas that answer where `jobs` curricula were trained at a time: no more than there are GPUs for, if
    there are any, and no fewer than the engine has."""
    there = len(visible_devices())
    return max(engine.replicas, min(jobs, there // engine.tensor_parallel) if there else jobs)


@task(**task_options("study-store"))
def store(data: Path, folder: RoundFolder) -> None:
    """Write what a round's tables and figures follow from."""
    store_round(data, folder)
