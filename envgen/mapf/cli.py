"""`envwright mapf generate|solve|verify|render`: data sets, plans, verdicts and pictures of boards."""

import json
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel, ConfigDict
from rich.console import Console

from envgen.errors import ConfigError, DataError, naming, validated
from envgen.files import read_json_lines, read_text, write_text
from envgen.mapf.prompts import PromptStyle
from envgen.terminal import console, say

mapf = typer.Typer(
    no_args_is_help=True,
    help="Boards of MAPF-FrozenLake: generate, solve, verify, render.\n\nExample: `envwright mapf solve"
    " problems.jsonl -o solutions.jsonl`",
)
SOLVER_BATCH = 256
MAX_INSTANCES = 10_000_000
Problems = Annotated[Path, typer.Argument(help="Problems: JSON lines, or a data set (.parquet).")]


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
    from envgen.config import EnvConfig
    from envgen.dataset import write_dataset
    from envgen.environment import Source
    from envgen.mapf.environment import MapfFrozenLake
    from envgen.mapf.space import Options
    from envgen.sampling import sample
    from envgen.yaml_files import read_yaml

    if output.suffix != ".parquet":
        raise ConfigError(f"-o {output}: generate writes Parquet; give a name that ends in .parquet")
    wanted = validated(EnvConfig, read_yaml(config), str(config))
    strata = dict(sorted(wanted.strata.items(), key=lambda item: (len(item[0]), item[0])))
    wanted = wanted.model_copy(update={"strata": strata})
    boards = MapfFrozenLake(validated(Options, {"agents": agents, "map_sizes": [*strata]}, str(config)))
    with naming(str(config), ConfigError):
        boards.space.check(wanted)
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
    from envgen.estimates import wilson
    from envgen.mapf.problem import Instance
    from envgen.mapf.problem_files import read_instances
    from envgen.mapf.verifier import verify as verdict_on

    instances: dict[str, Instance] = {}
    for instance in read_instances(data):
        if instances.setdefault(instance.id, instance) is not instance:
            raise DataError(f"{data}: id {instance.id!r} occurs twice; give every problem its own id")
    lines, verdicts = [], []
    for number, value in read_json_lines(completions):
        where = f"{completions}: line {number}"
        with naming(where):
            answer = Answer.model_validate(value)
        if answer.id not in instances:
            raise DataError(f"{where}: id {answer.id!r} is not in {data}")
        verdicts.append(verdict_on(instances[answer.id], answer.completion))
        lines.append(json.dumps({"id": answer.id, **verdicts[-1].model_dump(mode="json")}) + "\n")
    if not lines:
        raise DataError(f"{completions}: holds no answer")
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
        Path | None, typer.Option(help="Text file with an answer, drawn up to where it fails.")
    ] = None,
) -> None:
    """Draw an animated replay of the optimal plan, or of an answer up to where it fails.

    Example: `envwright mapf render problems.jsonl -o plan.svg`
    """
    from envgen.mapf.environment import MapfFrozenLake
    from envgen.mapf.problem_files import read_instance
    from envgen.mapf.prompts import answer as answer_text
    from envgen.mapf.space import Options
    from envgen.mapf.verifier import verify as verdict_on

    if output.suffix != ".svg":
        raise DataError(f"-o {output}: render writes SVG; give a name that ends in .svg")
    instance = read_instance(data, id)
    text = read_text(answer) if answer else answer_text(instance.solution.plan)
    verdict = verdict_on(instance, text)
    write_text(output, MapfFrozenLake(Options()).picture(instance, text, verdict))
    costs = f"sum of costs {verdict.sum_of_costs}, makespan {verdict.makespan}"
    kind = (verdict.category or ("optimal plan" if verdict.optimal else "valid plan")).replace("_", " ")
    say(f"{kind}: {verdict.detail or costs} -> {output}")
