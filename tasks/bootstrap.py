"""Make the start policy."""

from collections.abc import Iterable
from pathlib import Path

from prefect import task

from engineer.context import ConfigSpace
from engineer.lessons import TAUGHT, lessons
from envgen.benchmark import suite_identities
from infra.preset import Preset
from infra.settings import Settings
from infra.study.spec import shipped_suites
from policy.child import run_child
from policy.tiny.corpus import board_examples, write_examples
from policy.tiny.spec import BootstrapRecipe, BootstrapSpec
from tasks.data import validation_instances
from tasks.run import Throttle, log, task_options


@task(**task_options("bootstrap"))
def bootstrap_policy(output: Path, preset: Preset, recipe: BootstrapRecipe, continue_from: Path | None) -> None:
    """Train a start policy in a child process and put it at `output`."""
    unseen = held_out(preset, recipe.agents)
    log.info("drawing %d boards and %d lessons; %d boards are held out", recipe.boards, recipe.designs, len(unseen))
    boards = board_examples(recipe, unseen, Settings().workers)
    space = ConfigSpace(map_sizes=recipe.design_sizes, min_hole_ratio=min(recipe.hole_ratios), max_hole_ratio=max(recipe.hole_ratios))
    examples = output.with_name(f"{output.name}-examples.parquet")
    write_examples(examples, boards + lessons(space, recipe.designs, recipe.seed, recipe.design_variants or TAUGHT))
    throttle = Throttle()

    def progress(entry: dict) -> None:
        if "loss" in entry and (throttle.ready() or entry["step"] == entry["steps"]):
            log.info("step %d of %d, loss %.3f", entry["step"], entry["steps"], entry["loss"])

    spec = BootstrapSpec(recipe=recipe, examples=examples, output=output, continue_from=continue_from)
    run_child("policy.tiny.bootstrap", spec, output.with_name(f"{output.name}-spec.json"), output.with_name(f"{output.name}.log"), progress)


def held_out(preset: Preset, agents: Iterable[int]) -> frozenset[str]:
    """Ids of the boards that no start policy is taught: the preset's validation set, the benchmark suite, the test suites of the shipped studies."""
    unseen = [*validation_instances(preset), *(instance for suite in shipped_suites() for instance in suite.draw())]
    return frozenset(instance.problem.id for instance in unseen).union(*map(suite_identities, agents))
