"""The model card of a stage's checkpoint, as the Hugging Face hub reads it: `checkpoint/README.md`."""

import os
from pathlib import Path
from typing import Any

from engineer.gate import BASE_POLICY, name_of
from envgen.breakdown import Counts
from envgen.files import CARD, CARD_MARK, write_text
from infra.analysis.formats import count, difference_text, markdown_table, rate_names, rate_text
from infra.analysis.report.build import environment
from infra.analysis.report.tables import made_with
from infra.config.preset import Preset
from infra.runs.results import CurriculumResults, StageResult
from infra.runs.run import Run, RunRef, run_command
from infra.runs.stage import Stage
from policy.checkpoints import resolve_model


def write_card(run: RunRef, results: CurriculumResults, number: int) -> Path | None:
    """Write the card beside the weights of a finished stage, and return its path; None if they are gone."""
    found, files, preset = results.stages[number], run.stage(number), run.preset
    if not files.checkpoint.is_dir():
        return None
    words, task = rate_names(preset.space.best), preset.task
    template = environment(Path(__file__).parent).overlay(autoescape=False).get_template("card.md.j2")
    card = template.render(
        front=_front(results, found, preset),
        results=results,
        stage=found,
        preset=preset,
        rates=_rates(results, found, words),
        strata=_strata(found, preset, words),
        lineage=[f"{name_of(one)}, `{run.identity(one)}`" for one in _lineage(results, number)],
        data={
            "training data": files.digest(Stage.train),
            "validation set": run.digest(Run.validation),
        },
        made=made_with(found.made),
        command=run_command(run.name, preset, len(results.stages)),
        instances=count(results.start.overall.n, "instance"),
        question=task.prompt(run.validation[0], preset.prompt_style),
        textual=task.space.identity == "textual",
    )
    # Written outside: what a killed process leaves in the folder would make its digest another one.
    write_text(files.directory / CARD, card)
    os.replace(files.directory / CARD, files.checkpoint / CARD)
    return files.checkpoint / CARD


def _front(results: CurriculumResults, stage: StageResult, preset: Preset) -> str:
    """The YAML front matter; the base model only if it is one of the hub."""
    from huggingface_hub import EvalResult, ModelCardData

    overall, family = stage.breakdown.overall, preset.family.name
    found = [
        EvalResult(
            task_type="text-generation",
            dataset_type=family,
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
        tags=["envwright", "reinforcement-learning", "grpo", "trl", family],
        eval_results=found,
    )
    return f"{CARD_MARK}{data.to_yaml()}\n---"


def _lineage(results: CurriculumResults, number: int) -> list[int]:
    """The stage and those it goes back to, down to the base policy, -1."""
    found = [number]
    while found[-1] != BASE_POLICY:
        found.append(results.stages[found[-1]].parent)
    return found


def _rates(results: CurriculumResults, stage: StageResult, words: dict[str, str]) -> str:
    gains = {"valid": stage.valid_gain, "optimal": stage.optimal_gain}
    rows = [
        (word, *(rate_text(_rate(one.overall, name)) for one in (results.start, stage.breakdown)), change)
        for name, word in words.items()
        for change in [difference_text(gains[name])]
    ]
    return markdown_table(("rate", "base policy", f"after stage {stage.stage}", "change"), rows)


def _strata(stage: StageResult, preset: Preset, words: dict[str, str]) -> str:
    rows = [
        (preset.space.label(stratum), str(part.n), *(rate_text(_rate(part, name)) for name in words))
        for stratum, part in stage.breakdown.strata.items()
    ]
    return markdown_table((preset.space.noun, "instances", *words.values()), rows)


def _rate(part: Counts, name: str) -> Any:
    return getattr(part, f"{name}_rate")
