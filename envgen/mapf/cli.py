"""`envwright mapf generate|solve|verify|render`: data sets, plans, verdicts and pictures of boards."""

import json
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel, ConfigDict
from rich.console import Console

from envgen.errors import ConfigError, DataError
from envgen.files import read_json_lines, read_text, write_text
from envgen.mapf.problem import Instance
from envgen.mapf.prompts import PromptStyle
from envgen.terminal import console, say

mapf = typer.Typer(
    no_args_is_help=True,
    help="Boards of MAPF-FrozenLake: generate, solve, verify, render.\n\nExample: `envwright mapf solve"
    " problems.jsonl -o solutions.jsonl`",
)
SOLVER_BATCH = 256
MAX_INSTANCES = 10_000_000
Problems = Annotated[
    Path,
    typer.Argument(
        help="Problems: .jsonl (one JSON object a line), .parquet (data set) or .txt (one board)."
    ),
]


@mapf.command()
def generate(
    config: Annotated[
        Path,
        typer.Argument(
            help="Environment config, YAML: {sizes: {4: {data_ratio: 1, hole_ratio: 0.2, wait_ratio: 0.5}}}."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Parquet file to write.")],
    count: Annotated[int, typer.Option(min=1, max=MAX_INSTANCES, help="Number of instances.")],
    agents: Annotated[int, typer.Option(min=2, max=5, help="Agents on each board.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed; the same seed gives the same file.")] = 0,
    style: Annotated[PromptStyle, typer.Option(help="Prompt style.")] = PromptStyle.BOARD,
) -> None:
    """Draw a data set of boards with exact counts and labels, without instances of the benchmark suite.

    Example: `envwright mapf generate config.yaml --count 500 --agents 2 -o data.parquet`
    """
    from envgen.dataset import write_dataset
    from envgen.environment import Source
    from envgen.mapf.environment import MapfFrozenLake
    from envgen.mapf.space import Options, check_config
    from envgen.sampling import sample
    from envgen.yaml_files import read_env_config

    if output.suffix != ".parquet":
        raise ConfigError(f"-o {output}: generate writes Parquet; give a name that ends in .parquet")
    wanted = read_env_config(config)
    try:
        check_config(wanted)
    except ConfigError as error:
        raise ConfigError(f"{config}: {error}") from None
    ascending = {name: wanted.strata[name] for name in sorted(wanted.strata, key=int)}
    wanted = wanted.model_copy(update={"strata": ascending})
    boards = MapfFrozenLake(Options(agents=agents))
    instances, report = sample(boards, wanted, count, Source(seed), boards.reserved(), console.print)
    origin = {"config": wanted, "seed": seed, "agents": agents, "report": report}
    write_dataset(output, instances, style, origin)
    say(f"{len(instances)} instances -> {output}")


@mapf.command()
def solve(
    problems: Problems,
    output: Annotated[Path, typer.Option("-o", "--output", help="Solutions, one JSON object a line.")],
) -> None:
    """Write the optimal plan of each problem, its cost, and whether it needs a wait.

    Example: `envwright mapf solve problems.jsonl -o solutions.jsonl`
    """
    from rich.progress import track

    from envgen.mapf.problem_files import read_problems, solution_line
    from envgen.mapf.solver.solve import solve_many

    parsed = read_problems(problems)
    batches = [parsed[first : first + SOLVER_BATCH] for first in range(0, len(parsed), SOLVER_BATCH)]
    lines = [
        json.dumps(solution_line(problem, solution)) + "\n"
        for batch in track(batches, "solving", console=Console(stderr=True), transient=True)
        for problem, solution in zip(batch, solve_many(batch), strict=True)
    ]
    write_text(output, "".join(lines))
    say(f"{len(lines)} problem{'s' * (len(lines) != 1)} -> {output}")


class Answer(BaseModel):
    """One line of a file of answers."""

    model_config = ConfigDict(extra="forbid")
    id: str
    completion: str


@mapf.command()
def verify(
    data: Problems,
    completions: Annotated[Path, typer.Argument(help='Answers, one {"id": ..., "completion": ...} a line.')],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write verdicts here instead of to the screen.")
    ] = None,
) -> None:
    """Judge answers: valid, optimal, or what went wrong first; problems without solutions are solved.

    Example: `envwright mapf verify data.parquet completions.jsonl`
    """
    from envgen.breakdown import wilson
    from envgen.mapf.problem_files import read_instances
    from envgen.mapf.verifier import verify as verdict_on

    instances: dict[str, Instance] = {}
    for instance in read_instances(data):
        if instance.id in instances:
            raise DataError(f"{data}: id {instance.id!r} occurs twice; give every problem its own id")
        instances[instance.id] = instance
    answers = _read_answers(completions)
    verdicts = []
    for number, answer in answers:
        if answer.id not in instances:
            raise DataError(f"{completions}: line {number}: id {answer.id!r} is not in {data}")
        verdicts.append(verdict_on(instances[answer.id], answer.completion))
    lines = [
        json.dumps({"id": answer.id, **verdict.model_dump(mode="json")}) + "\n"
        for (_, answer), verdict in zip(answers, verdicts, strict=True)
    ]
    if output:
        write_text(output, "".join(lines))
    else:
        typer.echo("".join(lines), nl=False)
    valid = wilson(sum(verdict.valid for verdict in verdicts), len(verdicts))
    optimal = wilson(sum(verdict.optimal for verdict in verdicts), len(verdicts))
    Console(stderr=True).print(f"{len(verdicts)} answers: valid {valid}, optimal {optimal}")


@mapf.command()
def render(
    data: Problems,
    output: Annotated[Path, typer.Option("-o", "--output", help="SVG file to write.")],
    id: Annotated[str | None, typer.Option(help="Id of the problem; without it the first one.")] = None,
    answer: Annotated[
        str | None,
        typer.Option(
            help="Draw this answer and its failure: a text file, or the text itself, "
            "'Agent 0: (0,1) (0,2) ...' with a line for each agent."
        ),
    ] = None,
) -> None:
    """Draw an animated replay of the optimal plan, or of an answer up to where it fails.

    Example: `envwright mapf render problems.jsonl -o plan.svg`
    """
    from envgen.mapf.parser import parse_plan
    from envgen.mapf.problem_files import read_instance
    from envgen.mapf.prompts import answer as answer_text
    from envgen.mapf.render import board_svg, replay_svg
    from envgen.mapf.verifier import FailureCategory
    from envgen.mapf.verifier import verify as verdict_on

    if output.suffix != ".svg":
        raise DataError(f"-o {output}: render writes SVG; give a name that ends in .svg")
    instance = read_instance(data, id)
    text = answer_text(instance.solution.plan) if answer is None else _answer_text(answer)
    verdict = verdict_on(instance, text)
    if verdict.category is FailureCategory.PARSE_ERROR:
        picture = board_svg(instance.problem, f"{verdict.outcome}: {verdict.reason}")
    else:
        plan = parse_plan(text, instance.problem.num_agents)
        caption = f"{verdict.outcome}: {verdict.reason}" if verdict.valid else verdict.reason
        picture = replay_svg(instance.problem, plan, verdict, caption)
    write_text(output, picture)
    say(f"{verdict.outcome}: {verdict.reason} -> {output}")


def _read_answers(path: Path) -> list[tuple[int, Answer]]:
    """Return the answers of a file with their line numbers; DataError names the first malformed line."""
    from envgen.mapf.problem_files import parsed

    answers = [
        (number, parsed(Answer.model_validate, value, f"{path}: line {number}"))
        for number, value in read_json_lines(path)
    ]
    if not answers:
        raise DataError(f"{path}: holds no answer")
    return answers


def _answer_text(answer: str) -> str:
    """Return an answer from the command line, or the content of the file of that name."""
    if "(" in answer or "\n" in answer:
        return answer
    try:
        return read_text(Path(answer))
    except DataError as error:
        raise DataError(f"{error}; --answer takes a text file or an answer, 'Agent 0: (0,1) (0,2)'") from None
