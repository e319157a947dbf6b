"""The commands that speak of boards: `generate`, `solve`, `verify`, `convert`, `render`, `play`."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from envgen.errors import ConfigError
from envgen.files import write_text
from envgen.mapf.problem import Objective
from envgen.mapf.prompts import PromptStyle
from envgen.terminal import ask_for_yes, console, say

commands = typer.Typer()
SOLVED_AT_ONCE = 256
MOST_INSTANCES = 10_000_000
DRAWN_A_MINUTE = 600_000
"""Instances that one core draws of two agents on small maps; others take longer."""
SOURCES = (
    ".jsonl (one JSON object a line), .parquet, MovingAI .scen with its .map beside it, .txt, or the name of"
    " a board, as crossing"
)
ANSWER = "the path of a text, or the text itself, 'Agent 0: (0,1) (0,2) ...' with a line an agent."


@commands.command(epilog="Example: `envwright generate config.yaml --count 500 --agents 2 -o data.parquet`")
def generate(
    config: Annotated[
        Path,
        typer.Argument(
            help="Environment config, YAML: {sizes: {4: {data_ratio: 1, hole_ratio: 0.2, wait_ratio: 0.5}}}."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Parquet file to write.")],
    count: Annotated[int, typer.Option(help=f"Number of instances, {MOST_INSTANCES:,} at most.")],
    agents: Annotated[int, typer.Option(help="Agents on each board, 2 to 5.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed; the same seed gives the same file.")] = 0,
    style: Annotated[str, typer.Option(help="Prompt style: board or compact.")] = "board",
    yes: Annotated[bool, typer.Option("--yes", help="Draw also what takes long.")] = False,
) -> None:
    """A data set of boards drawn from an environment config, with exact counts and labels; no instance of the
    benchmark suite is in it."""
    from envgen.dataset import write_dataset
    from envgen.mapf.benchmark import suite_identities
    from envgen.mapf.config import BoardsConfig
    from envgen.mapf.sampler import sample
    from envgen.yaml_files import read_env_config

    _check_request(output, count, yes)
    prompt_style = _style(style)
    wanted = read_env_config(config, BoardsConfig)
    kept_apart = suite_identities(agents)
    instances, report = sample(
        wanted,
        count,
        agents=agents,
        seed=seed,
        held_out=kept_apart,
        progress=console.print,
    )
    write_dataset(
        output, instances, prompt_style, {"config": wanted, "seed": seed, "agents": agents, "report": report}
    )
    say(f"{len(instances)} instances -> {output}")


@commands.command(epilog="Example: `envwright solve problems.jsonl -o solutions.jsonl`")
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

    from envgen.mapf.commands.problems import counted, posed
    from envgen.mapf.formats import solution_line
    from envgen.mapf.solver.solve import optimise

    parsed = [one.problem for one in posed(problems, agents=agents)]
    batches = [parsed[at : at + SOLVED_AT_ONCE] for at in range(0, len(parsed), SOLVED_AT_ONCE)]
    lines = [
        json.dumps(solution_line(problem, solution))
        for batch in track(batches, "solving", console=Console(stderr=True), transient=True)
        for problem, solution in zip(batch, optimise(batch, objective), strict=True)
    ]
    write_text(output, "".join(line + "\n" for line in lines))
    say(f"{counted(len(lines), 'problem')} -> {output}")


@commands.command(epilog="Example: `envwright verify data.parquet completions.jsonl`")
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
    from envgen.mapf.commands.verify import verdict_lines

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


@commands.command(epilog="Example: `envwright convert board.scen board.txt`")
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

    from envgen.mapf.commands.convert import check_output
    from envgen.mapf.commands.convert import convert as convert_problems
    from envgen.mapf.commands.problems import counted, posed

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
    say(f"{counted(len(found), 'problem')} -> {output}{note}")


@commands.command(epilog="Example: `envwright render crossing -o crossing.png`")
def render(
    data: Annotated[str, typer.Argument(help=f"Problems: {SOURCES}.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="A picture: .svg moves, .png is still.")],
    id: Annotated[str | None, typer.Option(help="Id of the problem; without it the first one.")] = None,
    answer: Annotated[str | None, typer.Option(help=f"Draw this answer and its failure: {ANSWER}")] = None,
) -> None:
    """Draw an optimal plan, or an answer and where it fails."""
    from envgen.mapf.commands.picture import draw
    from envgen.mapf.commands.problems import posed

    verdict = draw(posed(data, id)[0], data, answer, output)
    say(f"{verdict.outcome}: {verdict.reason} -> {output}")


@commands.command(epilog="Example: `envwright play crossing`")
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
    from envgen.mapf.commands.answers import judged_plan
    from envgen.mapf.commands.play import play as play_board
    from envgen.mapf.commands.play import show_answer, show_plan
    from envgen.mapf.commands.problems import posed

    prompt_style = _style(style)
    if plan and answer is not None:
        raise ConfigError("--plan and --answer are both given; choose one plan to step through")
    one = posed(data, id)[0]
    if answer is not None:
        show_answer(one, *judged_plan(one, data, answer), prompt_style, console, _ask)
    else:
        (show_plan if plan else play_board)(one, prompt_style, console, _ask)


def _check_request(output: Path, count: int, yes: bool) -> None:
    """ConfigError for a file that is no Parquet, or more instances than are wise; says how long many take."""
    if output.suffix != ".parquet":
        raise ConfigError(
            f"-o {output}: generate writes Parquet, give a name that ends in .parquet; 'envwright convert'"
            " makes .jsonl of it"
        )
    if count > MOST_INSTANCES:
        raise ConfigError(
            f"--count {count:,}: expected {MOST_INSTANCES:,} at most; draw several files instead"
        )
    if count >= DRAWN_A_MINUTE // 6:
        minutes = max(1, round(count / DRAWN_A_MINUTE))
        say(f"{count:,} instances take about {minutes} min and {round(count * 3e-6) or 1} GB of memory")
    if count > DRAWN_A_MINUTE:
        ask_for_yes(f"--count {count:,}", yes, "ask for fewer")


def _style(name: str) -> PromptStyle:
    """A prompt style by its name."""
    if name not in set(PromptStyle):
        raise ConfigError(f"--style {name!r}: expected one of {', '.join(PromptStyle)}")
    return PromptStyle(name)


def _ask(text: str) -> str:
    """One typed line; what a pipe says is shown too."""
    line = console.input(text)
    if not sys.stdin.isatty():
        say(line)
    return line
