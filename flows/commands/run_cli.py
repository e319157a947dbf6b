"""`envwright run`, `compare`, `report`, `lineage`: curricula and what they leave."""

import json
from typing import Annotated

import typer
from rich.console import Console

from envgen.errors import ChildError, ConfigError
from envgen.terminal import console, say
from flows.commands.terminal import WAITING, show_log

commands = typer.Typer()


@commands.command(epilog="Example: `envwright run tiny --seed 1 --set trl.learning_rate=1e-4`")
def run(
    preset: Annotated[str, typer.Argument(help="A shipped preset, or the path of a YAML file.")],
    engineer: Annotated[
        str | None,
        typer.Option(
            help="Engineer, by name: checkpoint, frontier, bandit, ...; an unknown name is answered with all."
        ),
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="Context variant: V1 to V6, V6S, V6W, full-details, no-history.")
    ] = None,
    stages: Annotated[int | None, typer.Option(help="Number of stages.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the curriculum.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any field of the preset, as a.b=c; may be repeated.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the directory in the runs folder.")] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print the resolved config and estimates of memory, tokens and hours, and stop."
        ),
    ] = False,
    gpu_memory: Annotated[
        float | None, typer.Option(min=1, help="With --dry-run: GiB of one of your GPUs.")
    ] = None,
    throughput: Annotated[
        str | None,
        typer.Option(
            metavar="GEN,TRAIN", help="With --dry-run: tokens a second that all GPUs generate and train on."
        ),
    ] = None,
    answer_length: Annotated[
        int | None, typer.Option(help="With --dry-run: mean tokens of an answer.")
    ] = None,
) -> None:
    """Run one curriculum here and now; the same command continues a run that was cut off."""
    from flows.parameters import chosen_curriculum, curriculum_options
    from infra.config.preset import parse_override
    from infra.config.settings import Settings
    from infra.runs.run import Run, RunRef, checked_run

    settings = dict(map(parse_override, set_ or [])) or None
    options = curriculum_options(
        {"engineer": engineer, "variant": variant, "stages": stages, "seed": seed, "settings": settings}
    )
    resolved, name = chosen_curriculum(preset, name or "", options)
    directory = Settings().run_directory(name)
    if dry_run:
        from flows.commands.dry_run import show_dry_run

        return show_dry_run(resolved, console, gpu_memory, throughput, answer_length)
    if given := [
        flag
        for flag, value in (
            ("gpu-memory", gpu_memory),
            ("throughput", throughput),
            ("answer-length", answer_length),
        )
        if value is not None
    ]:
        raise ConfigError(f"--{given[0]}: only --dry-run reads it; add that, or leave it out")
    show_log()
    console.print(
        f"[bold]{name}[/bold]: preset {resolved.name}, engineer {resolved.engineer.name}, context"
        f" {resolved.engineer.variant}, {resolved.stages} stages"
    )
    console.print("starting the orchestrator ...")
    opened = checked_run(directory, resolved)
    from flows.commands.tables import closing_lines, rates_table
    from flows.curriculum import curriculum
    from infra.runs.next_config import must_ask

    results = curriculum(preset, name, options)
    console.print(rates_table(results))
    for line in closing_lines(results):
        say(line)
    run = RunRef(directory=directory, preset=opened.preset)
    say(f"report: {run.path(Run.report)}")
    if must_ask(run, results.stages[-1].stage):
        commands = f"envwright approve {run.argument}, or envwright reject {run.argument}"
        say(f"waiting for a decision: {commands}; then run the same command again")
        raise typer.Exit(WAITING)


@commands.command(
    epilog="Example: `envwright compare tiny --engineers checkpoint,random --seeds 0,1,2 --variants V1,V6`"
)
def compare(
    preset: Annotated[str, typer.Argument(help="A shipped preset, or the path of a YAML file.")],
    engineers: Annotated[
        str,
        typer.Option(
            help=(
                "Engineers with commas between them; one that reads a context may name its variant:"
                " checkpoint:V1."
            )
        ),
    ],
    seeds: Annotated[
        str, typer.Option(help="Seeds with commas between them. Stage 0 is trained once, with the first.")
    ] = "0,1,2",
    variants: Annotated[
        str | None,
        typer.Option(
            help="Context variants for every engineer that reads a context; without it the preset's."
        ),
    ] = None,
    stages: Annotated[int | None, typer.Option(help="Number of stages.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Any field of the preset, as a.b=c; engineer.options are those of engineer.name."
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Curricula at a time, among which cores and GPUs are shared out.")
    ] = 1,
    name: Annotated[str | None, typer.Option(help="Name of the directory in the runs folder.")] = None,
) -> None:
    """Engineer variants side by side from one shared stage 0, with intervals; the same command continues, and
    may add some."""
    from flows.parameters import ComparisonOptions
    from infra.analysis.results import read_comparison_results
    from infra.analysis.spec import plan
    from infra.config.preset import parse_override
    from infra.config.settings import Settings
    from policy.checkpoints import resolve_model

    settings = dict(map(parse_override, set_ or [])) | ({} if stages is None else {"stages": stages})
    spec = plan(preset, engineers, seeds, variants=variants, settings=settings, name=name)
    resolve_model(spec.preset.model)
    options = ComparisonOptions(
        engineers=engineers.split(","),
        seeds=list(spec.seeds),
        variants=variants.split(",") if variants else [],
        settings=settings,
    )
    directory = Settings().run_directory(spec.name)
    show_log()
    labels = ", ".join(arm.label for arm in spec.arms)
    console.print(
        f"{spec.name}: {len(spec.arms)} engineers ({labels}), seeds {seeds}, {spec.preset.stages} stages",
        highlight=False,
        soft_wrap=True,
    )
    console.print("starting the orchestrator ...")
    from flows.commands.tables import comparison_table
    from flows.compare import compare as compare_flow

    failure = None
    try:
        compare_flow(preset, spec.name, options, jobs)
    except ChildError as error:
        failure = error
    if (directory / "comparison_results.json").exists():
        Console(width=max(console.width, 100)).print(comparison_table(read_comparison_results(directory)))
        say(f"comparison: {directory / 'comparison.html'}")
    if failure:
        raise failure


@commands.command(epilog="Example: `envwright report tiny-checkpoint-V6W-s0`")
def report(run: Annotated[str, typer.Argument(help="Name of a run, or its path with a / in it.")]) -> None:
    """Write the HTML report of a run again."""
    from infra.analysis.report.build import write_report
    from infra.config.settings import Settings

    say(f"report: {write_report(Settings().find_run(run))}")


@commands.command(epilog="Example: `envwright lineage runs/tiny-checkpoint-V6W-s0/stage-02/checkpoint`")
def lineage(
    checkpoint: Annotated[
        str,
        typer.Argument(
            help=(
                "A checkpoint directory, also one that was moved or deleted; or models:/NAME@ALIAS,"
                " models:/NAME/VERSION."
            )
        ),
    ],
    json_: Annotated[bool, typer.Option("--json", help="Print the chain as JSON, newest first.")] = False,
) -> None:
    """What a checkpoint was made from, down to the base model, out of MLflow's record alone."""
    from flows.commands.tables import lineage_tree
    from infra.config.settings import Settings
    from infra.lineage.ancestry import ancestry

    chain = ancestry(Settings().tracking_uri, checkpoint)
    if json_:
        typer.echo(json.dumps([ancestor.model_dump(mode="json") for ancestor in chain], indent=1))
    else:
        console.print(lineage_tree(chain))
