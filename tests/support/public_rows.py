"""Our instances as rows of the public benchmark."""

import json
from collections.abc import Iterable
from pathlib import Path

from envgen.mapf.prompts import PromptStyle, prompt
from envgen.suites import Item


def public_row(item: Item, **other: object) -> dict:
    """An instance as a row of the public data set."""
    problem = item.instance.problem
    text = prompt(problem, PromptStyle.BOARD)
    return {"sample_id": item.name, "num_agents": problem.num_agents, "text": text} | other


def write_rows(path: Path, rows: Iterable[object]) -> str:
    """Write JSON lines and return their path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)
