"""Make the base policy."""

import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from prefect import task

from engineer.lessons import lessons
from envgen.dataset import write_dataset
from envgen.errors import ConfigError
from envgen.files import canonical_json, write_json
from envgen.mapf.benchmark import suite_identities
from envgen.mapf.prompts import PromptStyle
from envgen.mapf.space import random_space
from envgen.seeds import seed_integer
from infra.analysis.study.spec import shipped_studies
from infra.config.preset import TUNING_SEED, load_preset
from infra.runs.data import validation_instances
from policy.child import run_child
from policy.grpo.train_spec import last_checkpoint
from policy.tiny.corpus import DESIGN_BATCHES, READ_BY_TOKENIZER, Example, design_chunks, write_examples
from policy.tiny.rates import Rates, evaluation_boards, rates_path
from policy.tiny.spec import BootstrapRecipe, BootstrapSpec
from tasks.run import Throttle, log, task_options

DESIGNS = "designs.parquet"
EVALUATION_BOARDS = 40
"""Of every number of agents, map size and hole ratio."""


@task(**task_options("bootstrap"))
def bootstrap_policy(output: Path, recipe: BootstrapRecipe) -> None:
    """Train a base policy in a child process and put it at `output`; goes on from the last checkpoint of a
    call that was cut off.

    ConfigError if that call had another recipe.
    """
    work = output.with_name(f"{output.name}-work")
    _claim(work, recipe)
    log.info("drawing the boards to evaluate on")
    boards = evaluation_boards(EVALUATION_BOARDS)
    unseen = held_out({part.agents for part in recipe.boards}).union(board.problem.id for board in boards)
    write_json(work / "held-out.json", sorted(unseen))
    write_dataset(work / "evaluation.parquet", boards, PromptStyle.COMPACT, {})
    if not (work / DESIGNS).is_file():
        log.info("drawing the design questions")
        write_examples(work / DESIGNS, _designs(recipe))
    log.info("%d steps; %d boards are never taught", recipe.steps, len(unseen))
    throttle = Throttle()

    def progress(entry: dict) -> None:
        if "rates" in entry:
            rates = Rates.model_validate(entry["rates"])
            write_json(rates_path(work, entry["step"]), rates)
            log.info(
                "step %d of %d, valid answers in %% (where a wait is needed):\n  %s",
                entry["step"],
                entry["steps"],
                "\n  ".join(rates.lines()),
            )
        if "loss" in entry and (throttle.ready() or entry["step"] == entry["steps"]):
            left = (entry["steps"] - entry["step"]) * entry["elapsed"] / max(1, entry["steps_here"])
            log.info(
                "step %d of %d, loss %.3f, %.0f min left",
                entry["step"],
                entry["steps"],
                entry["loss"],
                left / 60,
            )

    spec = BootstrapSpec(
        recipe=recipe,
        held_out=work / "held-out.json",
        designs=work / DESIGNS,
        evaluation=work / "evaluation.parquet",
        work=work,
        output=output,
    )
    run_child("policy.tiny.bootstrap", spec, work / "spec.json", work / "bootstrap.log", progress)


def _designs(recipe: BootstrapRecipe) -> list[Example]:
    """Design questions with the rule's answers, chunk by chunk, enough for the tokenizer too."""
    each = recipe.design_batch_size * DESIGN_BATCHES
    chunks = max(design_chunks(recipe), -(-READ_BY_TOKENIZER // each))
    return [
        example
        for chunk in range(chunks)
        for example in islice(lessons(seed_integer(recipe.seed, "designs", chunk), random_space), each)
    ]


def held_out(agents: Iterable[int]) -> frozenset[str]:
    """Ids of the boards that no base policy is taught.

    Those of the benchmark suite and of the shipped studies' test suites; validation and tuning sets of `tiny`
    and of the presets of these studies."""
    studies = shipped_studies()
    unseen = [instance for study in studies for instance in study.test.draw()]
    for name in {"tiny", *(study.preset for study in studies)}:
        preset = load_preset(name)
        tuning = preset.model_copy(
            update={"validation": preset.validation.model_copy(update={"seed": TUNING_SEED})}
        )
        unseen += validation_instances(preset) + validation_instances(tuning)
    return frozenset(instance.problem.id for instance in unseen).union(*map(suite_identities, agents))


def _claim(work: Path, recipe: BootstrapRecipe) -> None:
    """Note the recipe in the work folder; ConfigError if another one was begun there."""
    path = work / "recipe.json"
    if path.is_file() and json.loads(path.read_bytes()) != json.loads(canonical_json(recipe)):
        step = last_checkpoint(work)
        reached = f" and reached {step.name}" if step else ""
        raise ConfigError(
            f"{work}: was begun with another recipe{reached}; repeat that call, choose another -o, or remove"
            " the folder"
        )
    write_json(path, recipe)
