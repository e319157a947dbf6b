"""`envwright engineers` lists the engineers; `engineers bench` measures them on a simulated learner."""

import json
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from engineer.contract import Proposal
from engineer.engineers.registry import find_engineer, known_engineers, load, resolve
from engineer.spec import EngineerSpec
from envgen.errors import ConfigError, ModelError, validated
from envgen.estimates import Difference
from envgen.files import write_json
from envgen.terminal import console, printable, say
from flows.commands.new_cli import first_line
from flows.commands.terminal import JSON, number_table, print_json, print_whole, row_table
from infra.config.dotted import parse_override, set_field
from infra.config.settings import Settings
from policy.chat.contract import ChatModel
from policy.chat.endpoint import Endpoint
from policy.chat.engine import start_engine
from policy.chat.engine_config import EngineConfig
from policy.checkpoints import check_model, resolve_model

if TYPE_CHECKING:
    from engineer.bench.play import BenchResults, Played

BARE = "options.floor=0,options.reversion=0,options.alarm=false"
RULES = (
    *("random", "frontier", f"frontier,{BARE}", "learnability"),
    *("window", "levels", "bandit", "gaussian"),
)
"""Engineers that are measured if none is named: every rule, and one without its guards."""
engineers = typer.Typer(invoke_without_command=True)
_WRITING = Lock()


@engineers.callback()
def list_engineers(context: typer.Context, json_: JSON = False) -> None:
    """List the engineers, what each proposes, and what it needs.

    Example: `envwright engineers`
    """
    if context.invoked_subcommand:
        return None
    rows = [_engineer_row(name) for name in known_engineers()]
    if json_:
        return print_json(rows)
    console.print(row_table("engineer", rows))


def _engineer_row(name: str) -> dict[str, Any]:
    """What an engineer proposes, the model it asks, its required options, and all its options."""
    try:
        engineer = find_engineer(name)
    except ConfigError as error:  # a package that cannot be loaded
        return {"name": name, "proposes": "", "needs": printable(str(error)), "options": ()}
    fields = engineer.model_fields
    models = {"checkpoint": "the policy just trained", "base": "the base policy"}
    needs = [models[engineer.asks]] if engineer.asks else []
    needs += [f"option {field}" for field, info in fields.items() if info.is_required() or info.default == ""]
    proposes = first_line(engineer)
    return {"name": name, "proposes": proposes, "needs": ", ".join(needs), "options": tuple(fields)}


@engineers.command()
def bench(
    engineer: Annotated[
        list[str] | None,
        typer.Option(help="NAME or NAME,FIELD=VALUE of `engineer`; may be repeated. All rules if left out."),
    ] = None,
    draws: Annotated[int, typer.Option(min=2, max=1000, help="Worlds of each trap.")] = 20,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="engineer.FIELD=VALUE for all these engineers; may be repeated."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Model that `checkpoint` and `base` ask: tiny-puzzles, a folder or a hub id."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder; benchmarks/engineers of the runs by default."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Worlds at a time, for an engineer behind a server.")] = 8,
    price: Annotated[
        tuple[float, float],
        typer.Option(
            min=0, help="Dollars for a million tokens of questions and of answers, for the column dollars."
        ),
    ] = (0, 0),
    json_: JSON = False,
) -> None:
    """Measure engineers on a simulated learner, in eight traps known from practice; rules take minutes.

    Example: `envwright engineers bench --engineer frontier --engineer random`
    """
    from engineer.bench.play import STAGES, BenchResults, look_ahead, play, scored
    from engineer.bench.worlds import TRAPS
    from infra.report.bench import write_page

    folder = output or Settings().runs / "benchmarks" / "engineers"
    worlds = [(trap, draw) for trap in TRAPS for draw in range(draws)]
    specs = {text.replace("options.", ""): _spec(text, set_ or ()) for text in engineer or RULES}
    _check(specs.values(), worlds, model)
    fixed = [play(*world, EngineerSpec(name="fixed")) for world in worlds]
    best = [look_ahead(*world) for world in worlds]
    games = {"look-ahead": best, "fixed": fixed}
    with _chat(model, folder) as chat:
        for name, spec in specs.items():
            answers = folder / "answers" / f"{re.sub(r'[^A-Za-z0-9.,=_-]', '-', name)}.jsonl"
            say(f"{name}: {len(worlds)} worlds")
            games[name] = _games(worlds, spec, chat, answers, jobs)
    scores = [scored(name, played, fixed, best) for name, played in games.items()]
    ranked = sorted(scores, key=lambda score: -score.overall.value)
    results = BenchResults(draws=draws, stages=STAGES, price=price, engineers=tuple(ranked))
    write_json(folder / "engineers.json", results)
    write_page(folder / "engineers.html", results)
    if json_:
        return print_json(results)
    print_whole(_table(results))
    say(f"leaderboard: {folder / 'engineers.html'}, numbers: {folder / 'engineers.json'}")


def _spec(text: str, overrides: Iterable[str]) -> EngineerSpec:
    """Return the engineer of `NAME,FIELD=VALUE,...` with overrides `engineer.FIELD=VALUE`; ConfigError."""
    name, *fields = text.split(",")
    raw: dict[str, Any] = {"engineer": {"name": name}}
    for override in (*overrides, *(f"engineer.{field}" for field in fields)):
        key, value = parse_override(override)
        if not key.startswith("engineer."):
            problem = "only fields of engineer can be set; use engineer.FIELD=VALUE"
            raise ConfigError(f"--set {override}: {problem}")
        set_field(raw, key, value)
    return validated(EngineerSpec, raw["engineer"], "engineer")


def _check(specs: Iterable[EngineerSpec], worlds: Iterable[tuple[str, int]], model: str | None) -> None:
    """ConfigError for options that do not fit a world, and for an engineer that asks a missing model."""
    from engineer.bench.play import STAGES
    from engineer.bench.worlds import draw_world, space_of

    spaces = {space.names: space for space in (space_of(draw_world(*world)) for world in worlds)}
    for spec in specs:
        for space in spaces.values():
            resolve(spec, space, STAGES)
        if find_engineer(spec.name).asks and model is None:
            missing = f"engineer {spec.name!r} asks a policy, and simulated worlds have none"
            raise ConfigError(f"{missing}; name one with --model, or choose another engineer")


def _chat(model: str | None, folder: Path) -> AbstractContextManager[ChatModel | None]:
    """Return the engine of a model, which ends with its context."""
    if model is None:
        return nullcontext()
    check_model(model)
    return closing(start_engine(resolve_model(model), EngineConfig(), folder / "engine.log"))


def _games(
    worlds: Sequence[tuple[str, int]], spec: EngineerSpec, chat: ChatModel | None, answers: Path, jobs: int
) -> list["Played"]:
    """Return how an engineer fares in each world, `jobs` at a time behind a server. Questions and answers go
    to a file; ModelError if the first question gets no answer."""
    from engineer.bench.play import play

    def game(world: tuple[str, int]) -> "Played":
        return play(*world, spec, chat, partial(_keep, answers, world))

    answers.unlink(missing_ok=True)
    with ThreadPoolExecutor(jobs if isinstance(load(spec), Endpoint) else 1) as pool:
        errors = Console(stderr=True)
        return [*track(pool.map(game, worlds), total=len(worlds), console=errors, transient=True)]


def _keep(file: Path, world: tuple[str, int], proposal: Proposal) -> None:
    """Append question and answers of a model to a file; ModelError if the first question got no answer."""
    if proposal.prompt:
        if not (proposal.attempts or file.exists()):
            raise ModelError(f"engineer {proposal.engineer}: {proposal.fallback}")
        file.parent.mkdir(parents=True, exist_ok=True)
        line = {"trap": world[0], "draw": world[1], **proposal.model_dump(mode="json")}
        with _WRITING, open(file, "a", encoding="utf-8") as lines:
            lines.write(json.dumps(line) + "\n")


def _table(results: "BenchResults") -> Table:
    """Return the leaderboard with half the width of each interval."""
    from infra.report.bench import NOTE, leaderboard

    def short(cell: Any) -> str:
        if isinstance(cell, Difference):
            return f"{100 * cell.value:+.1f}±{50 * (cell.high - cell.low):.1f}"
        return cell or "-"

    frame = leaderboard(results)
    cells = frame.map(short).to_numpy().tolist()
    title = f"{results.draws} draws of each trap on a simulated learner; no model is trained"
    table = number_table(list(frame.columns), title, NOTE, cells)
    for column in table.columns:
        column.header = str(column.header).replace(" ", "\n")
    return table
