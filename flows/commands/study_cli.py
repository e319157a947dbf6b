"""`envwright study`: does redesigning the environment help? Registered arms and seeds, a test suite, tables
with intervals."""

from pathlib import Path
from typing import Annotated

import typer

from envgen.errors import ConfigError
from envgen.terminal import say
from flows.commands import options
from flows.commands.terminal import JSON, print_json, print_whole, start_orchestrator

commands = typer.Typer()


@commands.command(epilog="Example: `envwright study strong --data docs/strong/study -o page`")
def study(
    name: Annotated[
        str, typer.Argument(help="A shipped study (small, strong, hour), or the path of a YAML file.")
    ],
    rounds: Annotated[
        list[int] | None, typer.Option("--round", help="Run only the round of this number; may be repeated.")
    ] = None,
    seeds: Annotated[
        str, typer.Option(help="Run only these seeds, as 21,22: several machines may share a round.")
    ] = "",
    stored: Annotated[
        Path | None,
        typer.Option(help="Folder of answers that another call stored: their seeds are not run again."),
    ] = None,
    jobs: options.Jobs = 1,
    data: Annotated[
        Path | None,
        typer.Option(help="Run nothing: draw tables and figures from the answers stored in this folder."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Folder for study.md and its pictures; that of the study if left out."
        ),
    ] = None,
) -> None:
    """Run the registered rounds of a study, and write its tables and figures; the same command continues one
    that was cut off."""
    from infra.analysis.spec import given_seeds
    from infra.analysis.study.page import write_page
    from infra.analysis.study.records import stored_seeds
    from infra.analysis.study.spec import load_study

    spec = load_study(name)
    if data is not None:
        if rounds or seeds or stored:
            raise ConfigError(
                "--round, --seeds and --stored are about what is run, and --data runs nothing; leave one out"
            )
        return say(f"study: {write_page(output or data.parent, data, spec)}")
    wanted = tuple(given_seeds(seeds)) if seeds else ()
    for one, numbers in spec.to_run(rounds or (), wanted):
        arms = spec.arms(one)
        say(f"round {one.number}: {len(arms)} arms ({', '.join(arms)}), seeds {', '.join(map(str, numbers))}")
    start_orchestrator()
    from flows.study import study as study_flow

    made = study_flow(name, tuple(rounds or ()), wanted, stored, jobs)
    say(f"data: {made}; 'envwright study {name} --data {made}' draws all of it again")
    if 1 in [len(stored_seeds(made, one.number)) for one in spec.rounds]:
        return say("study: no page yet, a round has one seed, and an interval needs two")
    say(f"study: {write_page(output or made.parent, made, spec)}")


@commands.command(epilog="Example: `envwright headroom tiny --jobs 2`")
def headroom(
    name: Annotated[
        str,
        typer.Argument(
            help="A shipped spec (tiny, wide, recipe, puzzles, puzzles-recipe), or the path of a YAML file."
        ),
    ],
    jobs: options.Jobs = 1,
    json_: JSON = False,
) -> None:
    """What designing could be worth: constant configs or recipes, and a greedy look-ahead; the same command
    continues one that was cut off."""
    from infra.analysis.formats import count
    from infra.analysis.headroom.results import MINUTES, PAGE, look_ahead_lines, verdict
    from infra.analysis.headroom.spec import load_headroom
    from infra.config.settings import Settings

    spec = load_headroom(name)
    trained = len(spec.seeds) * len(spec.configs) * (2 * spec.stages - 1 if spec.look_ahead else spec.stages)
    say(
        f"{count(len(spec.configs), 'config')}, {count(len(spec.seeds), 'seed')}, "
        f"{count(spec.stages, 'stage')}: {trained} stages are trained"
    )
    start_orchestrator()
    from flows.commands.tables import headroom_table
    from flows.headroom import headroom as headroom_flow

    results = headroom_flow(name, jobs)
    if json_:
        return print_json(results)
    print_whole(headroom_table(results), (MINUTES,))
    for line in (*look_ahead_lines(results), verdict(results)):
        say(line)
    say(f"headroom: {Settings().run_directory(spec.comparison.name) / PAGE}")
