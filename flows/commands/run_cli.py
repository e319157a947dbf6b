"""`envwright run`, `compare`, `report`: curricula and what they leave."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from envgen.errors import ChildError
from envgen.terminal import console, say
from flows.commands.terminal import JSON, WAITING, print_json, print_whole, start_orchestrator

if TYPE_CHECKING:
    from flows.parameters import ComparisonOptions, CurriculumOptions
    from infra.analysis.spec import ComparisonSpec
    from infra.runs.results import CurriculumResults
    from infra.runs.run import RunRef

commands = typer.Typer()

Preset = Annotated[str, typer.Argument(help="A shipped preset, or the path of a YAML file.")]
Stages = Annotated[int | None, typer.Option(help="Number of stages.")]
Name = Annotated[str | None, typer.Option(help="Name of the directory in the runs folder.")]
Yes = Annotated[bool, typer.Option("--yes", help="Run also what takes long.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Any field of the preset, as a.b=c; may be repeated. engineer.options are of engineer.name.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Print the resolved preset, its optimizer steps and its tokens, and stop."
    ),
]
Engineer = Annotated[
    str | None,
    typer.Option(
        help="Engineer, by name: checkpoint, frontier, bandit, ...; an unknown name is answered with all."
    ),
]
Variant = Annotated[
    str | None, typer.Option(help="Context variant: V1 to V6, V6S, V6W, full-details, no-history.")
]
Engineers = Annotated[
    str,
    typer.Option(
        help="Engineers with commas between them; one that reads a context may name a variant: checkpoint:V1."
    ),
]
Seeds = Annotated[
    str, typer.Option(help="Seeds with commas between them; one stage 0 for all has the first.")
]
Stage0 = Annotated[
    Literal["one", "per-seed"],
    typer.Option("--stage-0", help="One for all seeds, or one for each seed, which its curricula share."),
]
Variants = Annotated[
    str | None,
    typer.Option(help="Context variants for every engineer that reads a context; without it the preset's."),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        help=(
            "Curricula at a time, among which cores and GPUs are shared out; 1 if left out, or as many as the"
            " workers take on a Prefect server with a deployment of the preset."
        ),
    ),
]
Registration = Annotated[
    Path | None,
    typer.Option(help="A text that says what is expected; a comparison is not continued under another one."),
]


@commands.command(epilog="Example: `envwright run tiny --seed 1 --set trl.learning_rate=1e-4`")
def run(
    preset: Preset,
    engineer: Engineer = None,
    variant: Variant = None,
    stages: Stages = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the curriculum.")] = None,
    set_: Overrides = None,
    name: Name = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    json_: JSON = False,
) -> None:
    """Run one curriculum here and now; the same command continues a run that was cut off."""
    from flows.forms import options_of
    from flows.parameters import CurriculumOptions, chosen_curriculum
    from infra.config.preset import parse_override
    from infra.config.settings import Settings
    from infra.runs.run import RunRef, checked_run, training_was_checked

    settings = dict(map(parse_override, set_ or [])) or None
    given = options_of(
        CurriculumOptions,
        {"engineer": engineer, "variant": variant, "stages": stages, "seed": seed, "settings": settings},
    )
    resolved, name = chosen_curriculum(preset, name or "", given)
    directory = Settings().run_directory(name)
    if dry_run:
        from flows.commands.request import show_dry_run

        return show_dry_run(resolved, console, json_)
    from policy.grpo.check import plan_training

    run = RunRef(directory=directory, preset=checked_run(directory, resolved).preset)
    if not training_was_checked(directory, resolved):
        plan_training(resolved.check_spec())
    console.print(
        f"[bold]{name}[/bold]: preset {resolved.name}, engineer {resolved.engineer.name}, context"
        f" {resolved.engineer.variant}, {resolved.stages} stages"
    )
    _go(run, preset, name, given, yes, json_)


def _go(run: "RunRef", preset: str, name: str, given: "CurriculumOptions", yes: bool, json_: bool) -> None:
    """Run the curriculum to its end or to where a person has to decide."""
    from flows.commands.request import announce
    from infra.config.workload import run_work
    from policy.checkpoints import check_hub

    announce(run_work(run.preset), yes)
    check_hub(run.preset.model)
    start_orchestrator()
    from flows.curriculum import curriculum
    from infra.runs.next_config import must_ask

    results = curriculum(preset, name, given)
    _tell(run, results, json_)
    if must_ask(run, results.stages[-1].stage):
        commands = f"envwright approve {run.argument}, or envwright reject {run.argument}"
        say(f"waiting for a decision: {commands}; then run the same command again")
        raise typer.Exit(WAITING)


def _tell(run: "RunRef", results: "CurriculumResults", json_: bool) -> None:
    """The rates of a run, and where its report is."""
    from flows.commands.tables import closing_lines, rates_table

    if json_:
        return print_json(results)
    print_whole(rates_table(results, run.preset.space.best), ())
    for line in closing_lines(results):
        say(line)
    say(f"report: {run.path(type(run).report)}")


@commands.command(
    epilog="Example: `envwright compare tiny --engineers checkpoint,random --seeds 0,1,2 --variants V1,V6`"
)
def compare(
    preset: Preset,
    engineers: Engineers,
    seeds: Seeds = "0,1,2",
    stage_0: Stage0 = "one",
    variants: Variants = None,
    stages: Stages = None,
    set_: Overrides = None,
    registration: Registration = None,
    jobs: Jobs = None,
    name: Name = None,
    yes: Yes = False,
    json_: JSON = False,
) -> None:
    """Engineer variants side by side from a shared stage 0, with intervals; the same command continues, and
    may add some."""
    from flows.forms import options_of
    from flows.parameters import ComparisonOptions, chosen_comparison
    from infra.analysis.spec import given_seeds
    from infra.config.preset import parse_override

    values = {
        "engineers": engineers.split(","),
        "seeds": given_seeds(seeds),
        "stage_0": stage_0,
        "variants": variants.split(",") if variants else None,
        "stages": stages,
        "registration": str(registration or ""),
        "settings": dict(map(parse_override, set_ or [])),
    }
    given = options_of(ComparisonOptions, values)
    _compare(chosen_comparison(preset, name or "", given), preset, given, jobs, yes, json_)


def _compare(
    spec: "ComparisonSpec", preset: str, given: "ComparisonOptions", jobs: int | None, yes: bool, json_: bool
) -> None:
    """Run the comparison and show what there is of it, also where a curriculum failed."""
    from flows.commands.request import announce, work_of
    from infra.analysis.results import read_comparison_results
    from infra.config.settings import Settings
    from policy.checkpoints import check_hub

    directory = Settings().run_directory(spec.name)
    labels, seeds = ", ".join(arm.label for arm in spec.arms), ",".join(map(str, spec.seeds))
    console.print(
        f"{spec.name}: {len(spec.arms)} engineers ({labels}), seeds {seeds}, {spec.preset.stages} stages",
        highlight=False,
        soft_wrap=True,
    )
    announce(work_of(spec), yes)
    check_hub(spec.preset.model)
    start_orchestrator()
    from flows.commands.tables import SPARED, comparison_table
    from flows.compare import compare as compare_flow

    failure = None
    try:
        compare_flow(preset, spec.name, given, jobs)
    except ChildError as error:
        failure = error
    if (directory / "comparison_results.json").exists():
        results = read_comparison_results(directory)
        if json_:
            print_json(results)
        else:
            print_whole(comparison_table(results), SPARED)
        say(f"comparison: {directory / 'comparison.html'}")
    if failure:
        raise failure


@commands.command(epilog="Example: `envwright report tiny-checkpoint-V6W-s0`")
def report(run: Annotated[str, typer.Argument(help="Name of a run, or its path with a / in it.")]) -> None:
    """Write the HTML report of a run again."""
    from infra.analysis.report.build import write_report
    from infra.config.settings import Settings

    say(f"report: {write_report(Settings().find_run(run))}")
