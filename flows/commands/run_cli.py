"""`envwright run` and `envwright compare`."""

from typing import Annotated

import typer

from engineer.spec import short_name
from envgen.errors import ChildError, ConfigError
from envgen.terminal import console, say
from envgen.yaml_files import dump_yaml
from flows.commands.options import takes_options
from flows.commands.terminal import JSON, WAITING, print_json, print_whole, start_prefect
from flows.parameters import ComparisonOptions, CurriculumOptions, chosen_comparison, chosen_curriculum
from infra.comparison.file import sha256
from infra.comparison.results import read_comparison_results
from infra.config.preset import Preset
from infra.config.settings import Settings, run_name
from infra.runs.files import REPORT
from infra.runs.next_config import must_ask
from infra.runs.run import checked_run, training_was_checked
from infra.training_time import stages_of, training_seconds, training_time
from policy.checkpoints import check_hub, is_simulated, resolve_model
from policy.grpo.launch import check_machine

Name = Annotated[str, typer.Option(help="Name of the directory in the runs folder.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the preset, its optimizer steps and what it lacks, and stop.")
]
JOBS = (
    "Curricula at a time, among which cores and GPUs are shared out; 1 if left out, or as many as the workers"
    " take on a Prefect server with a deployment of the preset."
)
Jobs = Annotated[int | None, typer.Option(min=1, help=JOBS)]


@takes_options(CurriculumOptions)
def run(
    preset: Annotated[
        str, typer.Argument(help="A shipped preset, the path of a YAML file, or a run to continue.")
    ],
    options: CurriculumOptions,
    name: Name = "",
    dry_run: DryRun = False,
    json_: JSON = False,
) -> None:
    """Run one curriculum on this machine; the same command continues a run that was cut off.

    Example: `envwright run tiny --seed 1 --set trl.learning_rate=1e-4`
    """
    resolved, name = chosen_curriculum(preset, name, options)
    directory = Settings().run_directory(name)
    if dry_run:
        return _show_dry_run(resolved, json_)
    run = checked_run(directory, resolved)
    if not training_was_checked(directory, resolved):
        resolved.plan()
    console.print(
        f"[bold]{name}[/bold]: preset {resolved.name}, engineer {short_name(resolved.engineer.name)}, context"
        f" {resolved.engineer.context}, {resolved.stages} stages"
    )
    say(training_time([(resolved, resolved.stages)]))
    check_hub(run.preset.model)
    start_prefect()
    from flows.commands.tables import rates_table
    from flows.curriculum import curriculum
    from infra.summary import advice, headlines, notes

    results = curriculum(preset, name, options)
    if json_:
        print_json(results)
    else:
        print_whole(rates_table(results, run.preset.space.best))
        summary = [*headlines(results, run.preset.space.best), *(advice(results, run) or ())]
        for line in [*summary, *notes(results), f"report: {run.path(REPORT)}"]:
            say(line)
    if must_ask(run, results.stages[-1].stage):
        argument = run_name(run.directory)
        answers = f"envwright approve {argument}, or envwright reject {argument}"
        say(f"waiting for a decision: {answers}; then run the same command again")
        raise typer.Exit(WAITING)


def _show_dry_run(preset: Preset, json_: bool = False) -> None:
    """Print the preset, the sizes and the time of its training, the length of its prompts, and what this
    machine lacks; ConfigError if TRL refuses an option, ModelError without the checkpoint."""
    resolve_model(preset.model)
    plan = preset.plan()
    if json_:
        seconds = training_seconds([(preset, preset.stages)])
        return print_json({"preset": preset, "training": plan, "training_seconds": seconds})
    lines = [dump_yaml(preset.model_dump(mode="json"))]
    if plan is not None:
        batch = f"{plan.completions} completions of {plan.prompts} prompts at a time"
        steps = f"{plan.optimizer_steps} optimizer steps a stage"
        lines.append(f"training processes: {plan.processes}, {batch}, {steps}")
    if (tokens := preset.prompt_tokens()) is not None:
        lines.append(f"the longest prompt has {tokens} tokens")
    lines.append(training_time([(preset, preset.stages)]))
    if not is_simulated(preset.model):
        try:
            check_machine(preset.trl, preset.training)
        except ConfigError as error:
            lines.append(f"not here: {error}")
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


@takes_options(ComparisonOptions)
def compare(
    preset: Annotated[
        str, typer.Argument(help="A comparison file, a preset, a run's name, or a comparison to continue.")
    ],
    options: ComparisonOptions,
    jobs: Jobs = None,
    name: Name = "",
    plan: Annotated[
        bool, typer.Option("--plan", help="Print the detectable difference and the training time, and stop.")
    ] = False,
    json_: JSON = False,
) -> None:
    """Compare arms (engineers, or any other settings) on a test set, with 95 % intervals.

    The same command continues a comparison; arms and seeds may be added.

    Example: `envwright compare tiny --engineers checkpoint:V1,checkpoint,random --seeds 0,1,2`
    """
    spec, text = chosen_comparison(preset, name, options)
    directory = Settings().run_directory(spec.name)
    labels, seeds = ", ".join(spec.presets), ",".join(map(str, spec.file.seeds))
    console.print(
        f"{spec.name}: {len(spec.presets)} arms ({labels}), seeds {seeds}, {spec.base.stages} stages,"
        f" SHA-256 of the file {sha256(text)[:12]}",
        highlight=False,
        soft_wrap=True,
    )
    if plan:
        from flows.commands.tables import plan_table

        console.print(plan_table(spec))
    say(training_time(stages_of(spec)))
    if plan:
        return
    check_hub(spec.base.model)
    start_prefect()
    from flows.commands.tables import comparison_table
    from flows.compare import compare as compare_flow

    failure = None
    try:
        compare_flow(preset, spec.name, options, jobs)
    except ChildError as error:
        failure = error
    if (directory / "comparison_results.json").exists():
        results = read_comparison_results(directory)
        if json_:
            print_json(results)
        else:
            print_whole(comparison_table(results))
        say(f"comparison: {directory / 'comparison.html'}")
    if failure:
        raise failure
