"""The model card of a stage's checkpoint, as the Hugging Face hub reads it: `checkpoint/README.md`."""

import os
from pathlib import Path

from engineer.gate import BASE_POLICY, name_of
from envgen.files import CARD, CARD_MARK, write_text
from infra import markdown, tables
from infra.config.preset import Preset
from infra.formats import count, rate_names
from infra.report.page import environment
from infra.results import CurriculumResults, StageResult
from infra.runs.files import TRAIN_DATA, VALIDATION
from infra.runs.run import RunRef, run_command
from policy.checkpoints import is_simulated, resolve_model


def write_card(run: RunRef, results: CurriculumResults, number: int) -> Path | None:
    """Write the card beside the weights of a finished stage, and return its path; None if they are gone, or
    are none: the simulated learner has no weights."""
    stage, preset = results.stages[number], run.preset
    if not run.checkpoint(number).is_dir() or is_simulated(run.policy(number)):
        return None
    alone, space = results.model_copy(update={"stages": (stage,)}), preset.space
    card = (
        environment()
        .overlay(autoescape=False)
        .get_template("card.md.j2")
        .render(
            front=_front(results, stage, preset),
            results=results,
            stage=stage,
            preset=preset,
            rates=markdown.table(tables.rates(alone, space.best)),
            strata=markdown.table(tables.strata(space, alone)),
            lineage=[f"{name_of(made)}, `{run.identity(made)}`" for made in _lineage(results, number)],
            data={
                "training data": run.digest(TRAIN_DATA, number),
                "validation set": run.digest(VALIDATION),
            },
            made=tables.provenance(stage.made),
            command=run_command(run.name, preset, len(results.stages)),
            instances=count(results.start.overall.n, "instance"),
            question=preset.task.prompt(run.read(VALIDATION)[0], preset.prompt_style),
            textual=space.identity == "textual",
        )
    )
    # Written outside: what a killed process leaves in the folder would make its digest another one.
    write_text(run.folder(number) / CARD, card)
    os.replace(run.folder(number) / CARD, run.checkpoint(number) / CARD)
    return run.checkpoint(number) / CARD


def _front(results: CurriculumResults, stage: StageResult, preset: Preset) -> str:
    """The YAML front matter; the base model only if it is one of the hub."""
    from huggingface_hub import EvalResult, ModelCardData

    overall, environment = stage.breakdown.overall, preset.environment.name
    rates = [
        EvalResult(
            task_type="text-generation",
            dataset_type=environment,
            dataset_name=f"validation set of {preset.name}, {overall.n} instances",
            metric_type=f"{word}_rate",
            metric_name=f"{word} rate",
            metric_value=rate.value,
            metric_args={"interval_95": [rate.low, rate.high]},
        )
        for name, word in rate_names(preset.space.best).items()
        for rate in [getattr(overall, f"{name}_rate")]
    ]
    on_hub = resolve_model(preset.model) == preset.model and not Path(preset.model).is_dir()
    data = ModelCardData(
        model_name=f"{results.curriculum}-stage-{stage.stage:02d}",
        base_model=preset.model if on_hub else None,
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=["envwright", "reinforcement-learning", "grpo", "trl", environment],
        eval_results=rates,
    )
    return f"{CARD_MARK}{data.to_yaml()}\n---"


def _lineage(results: CurriculumResults, number: int) -> list[int]:
    """Return the stage and the stages it descends from, down to the base policy, -1."""
    lineage = [number]
    while lineage[-1] != BASE_POLICY:
        lineage.append(results.stages[lineage[-1]].parent)
    return lineage
