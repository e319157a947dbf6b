"""What a run achieved, in sentences: the report, the terminal and Prefect's artifact show the same ones."""

import shlex

from engineer.engineers.registry import asks, reads_context
from engineer.gate import name_of
from envgen.estimates import Difference, Rate
from infra.formats import count, estimate, percent
from infra.results import CurriculumResults, Part
from infra.runs.run import Run
from policy.checkpoints import SHIPPED, is_simulated

_FALLBACK = ", the previous config is kept"
"""End of a fallback's reason that the sentence around it repeats."""


def headlines(results: CurriculumResults, best: str | None) -> list[str]:
    """Return a sentence for the designed stages, if any, and one for stage 0; rates claim no more than their
    intervals. `best`: the environment's word for optimal answers, None without any."""
    sentences = [f"{part_label(part, results)}: {_changes(part, best)}." for part in results.parts]
    if not results.start.overall.valid:
        unsolved = f"the base policy solved none of {count(results.start.overall.instances, 'instance')}"
        sentences.insert(0, f"{unsolved}, so that training had hardly anything to learn from.")
    number = results.final_stage
    if number != results.stages[-1].stage:
        sentences.append(f"The gate rolled back: the run ends with {name_of(number)}.")
    return list(map(_sentence, sentences))


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def part_label(part: Part, results: CurriculumResults) -> str:
    """Return a part of a run in words, with the number of designs that were used."""
    if part.after is results.stages[0].breakdown:
        return "stage 0 (default config)"
    last = results.final_stage
    configs = [stage.config for stage in results.stages[: last + 1]]
    if all(config == configs[0] for config in configs):
        return f"{part.name} (default config)"
    used = sum(stage.design_used for stage in results.stages[:last])
    designs = f"{used} of {count(last, 'design')} of {results.engineer} used"
    return f"{part.name} (training and redesign together; {designs})"


def _changes(part: Part, best: str | None) -> str:
    before, after = part.before.overall, part.after.overall
    changes = [_change("valid", part.valid, after.valid_rate, before.valid_rate)]
    if best:
        changes.append(_change(best, part.optimal, after.optimal_rate, before.optimal_rate))
    return "; ".join(changes)


def _change(word: str, change: Difference, after: Rate, before: Rate) -> str:
    what = (f"no clear change in {word}", f"{word} rose", f"{word} fell")[change.sign]
    return f"{what} from {percent(before.value)} to {percent(after.value)}, {estimate(change)}"


def advice(results: CurriculumResults, run: Run) -> tuple[str, str] | None:
    """Return a sentence and the command that measures what the designs are worth; None without a designed
    stage, and for a run of the baseline `fixed` or of a comparison."""
    if len(results.parts) == 1 or results.engineer == "fixed" or run.comparison:
        return None
    preset = run.preset
    sentence = (
        "Training and redesign both act on these rates. To measure the redesign alone, compare with the "
        "engineer that keeps the default config:"
    )
    if is_simulated(preset.model):
        sentence = f"No model was trained: the policy is a simulated learner. {sentence}"
    if preset.model in SHIPPED and asks(preset.engineer.name):
        sentence = f"The policy {preset.model!r} was taught a design rule before this run. {sentence}"
    engineer, seeds = preset.engineer, range(preset.seed, preset.seed + 3)
    context = f":{engineer.context}" if reads_context(engineer.name) else ""
    words = ["envwright", "compare", results.curriculum, "--engineers", f"fixed,{engineer.name}{context}"]
    words += ["--seeds", ",".join(map(str, seeds))]
    words += ["--set", "approval=none"] if preset.approval == "required" else []
    return sentence, shlex.join(words)


def notes(results: CurriculumResults) -> list[str]:
    """Return drops and their consequence, decisions, and configs that were kept and why."""
    lines = []
    for stage in results.stages:
        reason = stage.proposal.fallback
        if stage.gate.dropped:
            lines.append(f"stage {stage.stage}: {stage.gate.reason}")
        if stage.decision:
            lines.append(f"stage {stage.stage}: the proposal was {stage.decision}")
        if reason is not None and not stage.overruled:
            why = reason.replace(_FALLBACK, "")
            lines.append(f"stage {stage.stage}: the previous config was kept: {why}")
    return lines
