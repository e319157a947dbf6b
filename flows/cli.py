"""`envwright COMMAND`: the command line. Heavy imports happen inside the commands, so that `--help` is
quick."""

import errno
import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from envgen.errors import ChildError, ConfigError, EnvwrightError
from envgen.files import write_text
from envgen.mapf.problem import Objective
from envgen.mapf.prompts import PromptStyle
from flows.commands.approval_cli import commands as approval_commands
from flows.commands.benchmark_cli import commands as benchmark_commands
from flows.commands.server_cli import commands as server_commands
from flows.commands.study_cli import commands as study_commands
from flows.commands.terminal import printable, show_log

SOLVED_AT_ONCE = 256
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    help="Reinforcement learning in which the policy redesigns its own environment.",
)
app.add_typer(approval_commands)
app.add_typer(benchmark_commands)
app.add_typer(server_commands)
app.add_typer(study_commands)
console = Console()

SOURCES = (
    ".jsonl (one JSON object a line), .parquet, MovingAI .scen with its .map beside it, .txt, or the name of"
    " a board, as crossing"
)
BAD_INPUT, FAILED, WAITING = 2, 1, 3
"""Exit codes. WAITING: the run is sound, and goes on when a person has decided on a proposal."""
ANSWER = "the path of a text, or the text itself, 'Agent 0: (0,1) (0,2) ...' with a line an agent."


def example(text: str) -> str:
    """The epilog of a command's help."""
    return f"Example: `{text}`"


@app.command(epilog=example("envwright run tiny --seed 1 --set trl.learning_rate=1e-4"))
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
        _plain(printable(line))
    run = RunRef(directory=directory, preset=opened.preset)
    _plain(f"report: {run.path(Run.report)}")
    if must_ask(run, results.stages[-1].stage):
        commands = f"envwright approve {run.argument}, or envwright reject {run.argument}"
        _plain(f"waiting for a decision: {commands}; then run the same command again")
        raise typer.Exit(WAITING)


@app.command(
    epilog=example(
        "envwright compare tiny --engineers checkpoint,random,fixed --seeds 0,1,2 --variants V1,V6"
    )
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
    jobs: Annotated[int, typer.Option(min=1, help="Curricula at a time.")] = 1,
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
        _plain(f"comparison: {directory / 'comparison.html'}")
    if failure:
        raise failure


@app.command(epilog=example("envwright solve problems.jsonl -o solutions.jsonl"))
def solve(
    problems: Annotated[str, typer.Argument(help=f"Problems: {SOURCES}.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Solutions, one JSON object a line.")],
    agents: Annotated[
        int | None, typer.Option(min=1, help="Use only the first agents of a .scen file.")
    ] = None,
    objective: Annotated[
        Objective,
        typer.Option(help="What the plan minimises; wait_required always speaks of the sum of costs."),
    ] = Objective.SUM_OF_COSTS,
) -> None:
    """Optimal plans, their costs and whether they need a wait."""
    from rich.progress import track

    from envgen.mapf.formats import solution_line
    from envgen.mapf.solver.solve import optimise
    from flows.commands.problems import counted, posed

    parsed = [one.problem for one in posed(problems, agents=agents)]
    batches = [parsed[at : at + SOLVED_AT_ONCE] for at in range(0, len(parsed), SOLVED_AT_ONCE)]
    lines = [
        json.dumps(solution_line(problem, solution))
        for batch in track(batches, "solving", console=Console(stderr=True), transient=True)
        for problem, solution in zip(batch, optimise(batch, objective), strict=True)
    ]
    write_text(output, "".join(line + "\n" for line in lines))
    _plain(f"{counted(len(lines), 'problem')} -> {output}")


@app.command(epilog=example("envwright convert board.scen board.txt"))
def convert(
    source: Annotated[str, typer.Argument(metavar="INPUT", help=f"Problems: {SOURCES}.")],
    output: Annotated[
        Path,
        typer.Argument(
            metavar="OUTPUT",
            help="What to write: .jsonl, .parquet (solved), .scen with a .map beside it, or .txt.",
        ),
    ],
    id: Annotated[
        str | None,
        typer.Option(help="Only the problem with this id; a .scen or .txt to write holds one problem."),
    ] = None,
    agents: Annotated[
        int | None, typer.Option(min=1, help="Use only the first agents of a .scen file.")
    ] = None,
    style: Annotated[str, typer.Option(help="Prompt style of a data set: board or compact.")] = "board",
) -> None:
    """Problems from one format to another, by the suffixes of the files."""
    from rich.progress import track

    from flows.commands.convert import check_output
    from flows.commands.convert import convert as convert_problems
    from flows.commands.problems import counted, posed

    prompt_style = _style(style)
    check_output(output)
    found = posed(source, id, agents)
    repeats = convert_problems(
        found,
        source,
        output,
        prompt_style,
        lambda all: track(all, "solving", console=Console(stderr=True), transient=True),
    )
    note = f" (boards repeated up to symmetry and the order of agents: {repeats})" if repeats else ""
    _plain(f"{counted(len(found), 'problem')} -> {output}{note}")


@app.command(epilog=example("envwright render crossing -o crossing.png"))
def render(
    data: Annotated[str, typer.Argument(help=f"Problems: {SOURCES}.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="A picture: .svg moves, .png is still.")],
    id: Annotated[str | None, typer.Option(help="Id of the problem; without it the first one.")] = None,
    answer: Annotated[str | None, typer.Option(help=f"Draw this answer and its failure: {ANSWER}")] = None,
) -> None:
    """Draw an optimal plan, or an answer and where it fails."""
    from flows.commands.picture import draw
    from flows.commands.problems import posed

    verdict = draw(posed(data, id)[0], data, answer, output)
    _plain(f"{verdict.outcome}: {verdict.reason} -> {output}")


@app.command(epilog=example("envwright play crossing"))
def play(
    data: Annotated[str, typer.Argument(help=f"Problems: {SOURCES}.")],
    id: Annotated[str | None, typer.Option(help="Id of the problem; without it the first one.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Step through the optimal plan instead.")] = False,
    answer: Annotated[
        str | None, typer.Option(help=f"Step through this answer instead, to where it fails: {ANSWER}")
    ] = None,
    style: Annotated[str, typer.Option(help="Prompt style that `p` shows: board or compact.")] = "board",
) -> None:
    """Step a board in the terminal with moves of your own, the optimal plan or an answer, and hear the
    verdict."""
    from flows.commands.answers import judged_plan
    from flows.commands.play import play as play_board
    from flows.commands.play import show_answer, show_plan
    from flows.commands.problems import posed

    prompt_style = _style(style)
    if plan and answer is not None:
        raise ConfigError("--plan and --answer are both given; choose one plan to step through")
    one = posed(data, id)[0]
    if answer is not None:
        show_answer(one, *judged_plan(one, data, answer), prompt_style, console, _ask)
    else:
        (show_plan if plan else play_board)(one, prompt_style, console, _ask)


@app.command(epilog=example("envwright generate config.yaml --count 500 --agents 2 --seed 0 -o data.parquet"))
def generate(
    config: Annotated[
        Path,
        typer.Argument(
            help="Environment config, YAML: {sizes: {4: {data_ratio: 1, hole_ratio: 0.2, wait_ratio: 0.5}}}."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Parquet file to write.")],
    count: Annotated[int, typer.Option(help="Number of instances.")],
    agents: Annotated[int, typer.Option(help="Agents on each board, 2 to 5.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed; the same seed gives the same file.")] = 0,
    style: Annotated[str, typer.Option(help="Prompt style: board or compact.")] = "board",
) -> None:
    """A data set drawn from an environment config, with exact counts and labels; no instance of the benchmark
    suite is in it."""
    from envgen.dataset import write_dataset
    from envgen.mapf.benchmark import suite_identities
    from envgen.mapf.config import BoardsConfig
    from envgen.mapf.sampler import sample
    from infra.config.preset import load_env_config
    from infra.config.settings import Settings

    prompt_style = _style(style)
    wanted = load_env_config(config, BoardsConfig)
    kept_apart = suite_identities(agents)
    instances, report = sample(
        wanted,
        count,
        agents=agents,
        seed=seed,
        held_out=kept_apart,
        workers=Settings().workers,
        progress=console.print,
    )
    write_dataset(
        output, instances, prompt_style, {"config": wanted, "seed": seed, "agents": agents, "report": report}
    )
    _plain(f"{len(instances)} instances -> {output}")


@app.command(epilog=example("envwright verify data.parquet completions.jsonl"))
def verify(
    data: Annotated[
        Path, typer.Argument(help="Instances (Parquet), or problems (JSON lines), which are solved first.")
    ],
    completions: Annotated[Path, typer.Argument(help='Answers, one {"id": ..., "completion": ...} a line.')],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write verdicts here instead of to the screen.")
    ] = None,
) -> None:
    """Verdicts for answers: valid, optimal, or what went wrong first."""
    from flows.commands.verify import verdict_lines

    lines, breakdown = verdict_lines(data, completions)
    if output:
        write_text(output, "".join(line + "\n" for line in lines))
    else:
        for line in lines:
            typer.echo(line)
    overall = breakdown.overall
    Console(stderr=True).print(
        f"{overall.n} answers: valid {overall.valid_rate}, optimal {overall.optimal_rate}"
    )


@app.command(epilog=example("envwright report tiny-checkpoint-V6W-s0"))
def report(run: Annotated[str, typer.Argument(help="Name of a run, or its path with a / in it.")]) -> None:
    """Write the HTML report of a run again."""
    from infra.analysis.report.build import write_report
    from infra.config.settings import Settings

    _plain(f"report: {write_report(Settings().find_run(run))}")


@app.command(epilog=example("envwright lineage runs/tiny-checkpoint-V6W-s0/stage-02/checkpoint"))
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


@app.command(epilog=example("envwright doctor"))
def doctor() -> None:
    """Versions, devices, folders and servers; exit code 2 for a set of versions that is known not to work."""
    from flows.commands.doctor import examine

    if not examine(console):
        raise typer.Exit(BAD_INPUT)


@app.command(epilog=example("envwright bootstrap -o base --set steps=200"))
def bootstrap(
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="Directory of the new base policy; DIRECTORY-work beside it holds its checkpoints.",
        ),
    ],
    recipe: Annotated[
        Path | None, typer.Option(help="Recipe, YAML; that of the shipped base policy if left out.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any field of the recipe, as a=b; may be repeated.")
    ] = None,
) -> None:
    """Make a tiny base policy from nothing; the same command continues one that was cut off."""
    from infra.config.preset import load_recipe, parse_override

    chosen = load_recipe(recipe, dict(parse_override(text) for text in set_ or []))
    if output.exists():
        raise ConfigError(f"{output}: exists already; choose another -o, or remove it")
    show_log()
    from flows.bootstrap import bootstrap as bootstrap_flow

    bootstrap_flow(output, chosen)
    _plain(f"base policy: {output}")


def _style(name: str) -> PromptStyle:
    """A prompt style by its name."""
    if name not in set(PromptStyle):
        raise ConfigError(f"--style {name!r}: expected one of {', '.join(PromptStyle)}")
    return PromptStyle(name)


def _ask(text: str) -> str:
    """One typed line; what a pipe says is shown too."""
    line = console.input(text)
    if not sys.stdin.isatty():
        _plain(printable(line))
    return line


def _plain(text: str) -> None:
    console.print(text, soft_wrap=True, markup=False, highlight=False)


def main() -> None:
    """Entry point: errors of the user become one message and exit code 2, failures exit code 1."""
    try:
        app()
    except Exception as error:
        sys.exit(_explain(error))


def _explain(error: Exception) -> int:
    from httpx import HTTPStatusError, codes

    from infra.serving.auth import REMEDY

    if isinstance(error, EnvwrightError):
        typer.echo(f"error: {error}", err=True)
        return FAILED if isinstance(error, ChildError) else BAD_INPUT
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        typer.echo(
            f"error: {error.filename or 'the disk'}: {error.strerror}; free some space and run the same"
            " command again, complete steps are kept",
            err=True,
        )
        return BAD_INPUT
    wrong_path = isinstance(error, PermissionError | FileExistsError | NotADirectoryError | IsADirectoryError)
    if isinstance(error, OSError) and (wrong_path or error.errno in {errno.ENAMETOOLONG, errno.ELOOP}):
        typer.echo(
            f"error: {error.filename2 or error.filename}: {error.strerror}; choose another path", err=True
        )
        return BAD_INPUT
    if isinstance(error, HTTPStatusError) and error.response.status_code == codes.UNAUTHORIZED:
        typer.echo(
            f"error: {error.request.url.host}: the Prefect server asks for an auth string; {REMEDY}", err=True
        )
        return BAD_INPUT
    raise error


if __name__ == "__main__":
    main()
