"""Problems from one kind of file to another."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from envgen.dataset import NAME, write_dataset
from envgen.errors import DataError
from envgen.files import write_text
from envgen.mapf.commands.problems import Posed, solved
from envgen.mapf.formats import problem_line
from envgen.mapf.movingai import write_scenario
from envgen.mapf.problem import Instance, identity, to_text
from envgen.mapf.prompts import PromptStyle

SUFFIXES = (".jsonl", ".parquet", ".scen", ".txt")
_SINGLE = (".scen", ".txt")


def check_output(output: Path) -> None:
    """DataError if the suffix of `output` names no format."""
    if output.suffix not in SUFFIXES:
        raise DataError(f"{output}: its suffix names no format; expected one of {', '.join(SUFFIXES)}")


def convert(
    found: list[Posed],
    source: str,
    output: Path,
    style: PromptStyle,
    watch: Callable[[list[Posed]], Iterable[Posed]],
) -> int:
    """Write problems in the format that the suffix of `output` names, all or nothing.

    `.scen` (with its `.map` beside it) and `.txt` hold one problem. For `.parquet` each problem is solved,
    `watch` iterates over them for a progress bar; its id becomes the canonical identity, by which data sets
    are kept apart, and the id that it had its name. Returns how many problems of a `.parquet` repeat the
    board of another. DataError says what does not fit."""
    check_output(output)
    if output.suffix in _SINGLE and len(found) != 1:
        raise DataError(
            f"{output}: holds one problem, {source} has {len(found)}; choose one with --id, or write .jsonl"
        )
    if output.suffix == ".scen":
        write_scenario(output, found[0].problem)
    elif output.suffix == ".txt":
        write_text(output, to_text(found[0].problem) + "\n")
    elif output.suffix == ".jsonl":
        write_text(output, "".join(json.dumps(problem_line(one.problem)) + "\n" for one in found))
    else:
        instances = [_identified(instance) for instance in solved(watch(found), source)]
        write_dataset(
            output,
            instances,
            style,
            {"source": Path(source).name},
            extra=[(NAME, [one.problem.id for one in found])],
        )
        return len(found) - len({instance.problem.id for instance in instances})
    return 0


def _identified(instance: Instance) -> Instance:
    return instance.model_copy(
        update={"problem": instance.problem.model_copy(update={"id": identity(instance.problem)})}
    )
