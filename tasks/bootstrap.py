"""Make the start policy."""

from pathlib import Path

from prefect import task

from infra.preset import Preset
from infra.settings import Settings
from policy.child import run_child
from policy.tiny.spec import BootstrapSpec, CorpusConfig
from tasks.data import validation_instances
from tasks.run import Throttle, log, task_options


@task(**task_options("bootstrap"))
def bootstrap_policy(output: Path, preset: Preset, steps: int | None, seed: int) -> None:
    """Train a start policy in a child process and put it at `output`; boards of the validation set are held out."""
    held_out = tuple(i.problem.id for i in validation_instances(preset))
    recipe = BootstrapSpec(output=output, held_out=held_out, seed=seed, corpus=CorpusConfig(seed=seed), workers=Settings().workers)
    if steps is not None:
        recipe = recipe.model_copy(update={"steps": steps})
    throttle = Throttle()

    def progress(entry: dict) -> None:
        if "loss" in entry and (throttle.ready() or entry["step"] == entry["steps"]):
            log.info("step %d of %d, loss %.3f", entry["step"], entry["steps"], entry["loss"])

    log.info("drawing boards, then training; %d validation boards are held out", len(held_out))
    run_child("policy.tiny.bootstrap", recipe, output.with_name(f".{output.name}.spec.json"), output.with_name(f"{output.name}.log"), progress)
