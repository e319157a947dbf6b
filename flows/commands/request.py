"""How much a run or a comparison asks for: printed before it starts; a lot needs --yes; and the dry run."""

from rich.console import Console

from envgen.errors import ConfigError
from envgen.frozen import Frozen
from envgen.terminal import say
from envgen.yaml_files import dump_yaml
from flows.commands.terminal import print_json
from infra.analysis.spec import ComparisonSpec
from infra.config.preset import Preset
from policy.checkpoints import resolve_model
from policy.grpo.check import TrainingPlan
from policy.grpo.launch import INSTALL, missing_packages
from policy.grpo.train_spec import answer_tokens, group_size

MOST = 2_000_000_000
"""Tokens, generated and trained on, that need no --yes. The largest preset that is shipped asks for 1.7
billion."""
CHARACTERS = 3
"""Characters of a token of a prompt, where the tokenizer is not on this machine."""
PACE = 10_000
"""Tokens a second of the example in hours; the pace of a machine is unknown before it runs."""


class Work(Frozen):
    """Completions of a request, about: each has half of its longest length. The engineer's are left out."""

    completions: int
    generated: int
    """Tokens of the completions."""
    trained: int
    """Tokens of prompts and completions that are trained on."""


def work_of(preset: Preset, stages: int, runs: int = 1) -> Work:
    """Return the work of `stages` stages, and of evaluating the base policy once in each of `runs` runs."""
    evaluations = stages + runs
    instances = sum(count for _, _, count in preset.validation.parts(preset.space))
    prompt = preset.prompt_tokens() or len(preset.task.longest_prompt(preset.prompt_style)) // CHARACTERS
    length = answer_tokens(preset.trl) // 2
    completions = stages * round(preset.instances * preset.epochs) * group_size(preset.trl)
    return Work(
        completions=completions + evaluations * instances,
        generated=completions * length + evaluations * (instances * preset.max_answer_tokens // 2),
        trained=completions * (prompt + length) * int(preset.trl.get("num_iterations") or 1),
    )


def work_of_comparison(spec: ComparisonSpec) -> Work:
    """Return the work of a comparison; a stage 0 that runs share is done once."""
    shared = len(spec.roots)
    return work_of(spec.preset, shared + len(spec.children) * (spec.preset.stages - 1), shared)


def sentence(work: Work) -> str:
    """Return completions, tokens and, for long work, hours at an example pace."""
    tokens = work.generated + work.trained
    hours = f"; {tokens / PACE / 3600:,.0f} hours at {PACE:,} tokens a second" if tokens > PACE * 3600 else ""
    return (
        f"in all about {work.completions:,} completions, {work.generated:,} tokens generated and"
        f" {work.trained:,} trained on{hours}"
    )


def announce(work: Work, yes: bool) -> None:
    """Print how much work is asked for; ConfigError if it is a lot and was not confirmed."""
    say(sentence(work))
    tokens = work.generated + work.trained
    if tokens > MOST and not yes:
        remedy = "add --yes if it is meant, or ask for fewer stages, instances, seeds or engineers"
        raise ConfigError(f"{tokens:,} tokens: takes long; {remedy}")


def _sizes(plan: TrainingPlan) -> str:
    at_a_time = f"{plan.completions} completions of {plan.prompts} prompts at a time"
    return (
        f"training processes: {plan.processes}, {at_a_time}, {plan.optimizer_steps} optimizer steps a stage"
    )


def show_dry_run(preset: Preset, console: Console, json_: bool = False) -> None:
    """Print the preset, what the installed TRL makes of its options, and its tokens.

    ConfigError if TRL refuses an option; ModelError if there is no such checkpoint.
    """
    resolve_model(preset.model)
    plan, work = preset.plan(), work_of(preset, preset.stages)
    resolved = preset.model_copy(update={"engineer": preset.effective_engineer()})
    if json_:
        return print_json({"preset": resolved, "training": plan, "work": work})
    lines = [
        dump_yaml(resolved.model_dump(mode="json")),
        *([] if plan is None else [_sizes(plan)]),
        f"{preset.stages} stages; {sentence(work)}",
    ]
    if (tokens := preset.prompt_tokens()) is not None:
        lines.append(f"the longest prompt has {tokens} tokens")
    lines += [
        f"not installed here, and needed for {setting}: {INSTALL[package]}"
        for package, setting in missing_packages(preset.trl, preset.training).items()
    ]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
