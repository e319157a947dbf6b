"""`envwright run PRESET --dry-run`: the resolved preset and what it asks for; nothing is written."""

from rich.console import Console

from envgen.yaml_files import dump_yaml
from flows.commands.request import sentence
from flows.commands.terminal import print_json
from infra.config.preset import Preset, resolved_json
from infra.config.workload import run_work
from policy.checkpoints import resolve_model
from policy.grpo.check import plan_training
from policy.grpo.launch import INSTALL, missing_packages


def show_dry_run(preset: Preset, console: Console, json_: bool = False) -> None:
    """Print the preset, what the installed TRL makes of its options, and its tokens.

    ConfigError if TRL refuses an option; ModelError if there is no such checkpoint.
    """
    resolve_model(preset.model)
    plan, work = plan_training(preset.check_spec()), run_work(preset)
    resolved = preset.model_copy(update={"engineer": preset.effective_engineer()})
    if json_:
        return print_json({"preset": resolved, "training": plan, "work": work})
    lines = [
        dump_yaml(resolved_json(resolved)),
        f"training processes: {plan.processes}, {plan.completions} completions of {plan.prompts} prompts at a"
        " time",
        f"{plan.optimizer_steps} optimizer steps a stage, {preset.stages} stages",
        sentence(work),
    ]
    if (tokens := preset.prompt_tokens()) is not None:
        lines.append(f"the longest prompt has {tokens} tokens")
    lines += [
        f"not installed here, and needed for {setting}: {INSTALL[package]}"
        for package, setting in missing_packages(preset.trl, preset.training).items()
    ]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
