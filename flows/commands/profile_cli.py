"""`envwright profile`: how often a policy solves each row, before anything is trained."""

from pathlib import Path
from typing import Annotated, Any

import pyarrow.parquet as pq
import typer

from envgen.breakdown import Breakdown, format_alarms
from envgen.terminal import say
from flows.commands.terminal import JSON, number_table, print_json, print_whole, show_log
from infra.config.dotted import parse_override
from infra.config.preset import Preset, load_preset
from infra.formats import narrow
from policy.checkpoints import check_hub

SOURCE = "a source for strata: {column: pass_rate, bins: [0, 0.3, 0.7, 1]}"


def profile(
    preset: Annotated[
        str, typer.Argument(help="A preset, the path of a YAML file, or of NeMo-Gym's rollouts (.jsonl).")
    ],
    answers: Annotated[int, typer.Option(min=1, max=1_000, help="Answers to each row.")] = 8,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Rows of each stratum; all if left out, 64 of a generator.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any field, as model=./warm. May be repeated.")
    ] = None,
    json_: JSON = False,
) -> None:
    """Measure how often a preset's model solves each row, and write a table with pass rates as difficulty.

    The same command continues one that was cut off.

    Example: `envwright profile ./quiz.yaml --answers 8`
    """
    if preset.endswith(".jsonl"):
        return _rollouts(Path(preset), json_)
    chosen = load_preset(preset, dict(map(parse_override, set_ or [])))
    check_hub(chosen.model)
    from tasks.profile import measure

    show_log()
    path, breakdown = measure(chosen, answers, rows)
    strata = _strata(chosen, breakdown, pq.read_table(path, columns=["stratum", "pass_rate"]).to_pylist())
    if json_:
        return print_json({"file": str(path), "strata": strata})
    caption = "answers are valid in %, with 95 % intervals; rows of which no answer, some or all are valid"
    headings = [chosen.space.noun, "rows", "valid %", "none", "some", "all"]
    title = f"{chosen.model}: {answers} answers to each row"
    columns = ("label", "rows", "valid", "none", "some", "all")
    cells = [[str(row[name]) for name in columns] for row in strata]
    print_whole(number_table(headings, title, caption, cells, min_width=79))
    for alarm in format_alarms(chosen.space, breakdown).values():
        say(alarm)
    say(f"{path}: {SOURCE}")


def _rollouts(rollouts: Path, json_: bool) -> None:
    """Show how many prompts of NeMo-Gym's rollouts are solved never, sometimes and always."""
    from tasks.profile import profile_rollouts

    path, rates = profile_rollouts(rollouts)
    counts = {"prompts": len(rates), **_shares(rates)}
    if json_:
        return print_json({"file": str(path), **counts})
    say(", ".join(f"{name} {count}" for name, count in counts.items()))
    say(f"{path}: {SOURCE}")


def _shares(rates: list[float]) -> dict[str, int]:
    """Return the numbers of rows of which no answer, some or all are valid."""
    none, full = rates.count(0), rates.count(1)
    return {"none": none, "some": len(rates) - none - full, "all": full}


def _strata(preset: Preset, breakdown: Breakdown, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row of the table for each stratum."""
    counted = []
    for name, counts in breakdown.strata.items():
        rates = [row["pass_rate"] for row in rows if row["stratum"] == name]
        words = {"label": preset.space.label(name), "rows": len(rates), "valid": narrow(counts.valid_rate)}
        counted.append({"stratum": name, **words, **_shares(rates)})
    return counted
