"""Problems from one kind of file to another."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from envgen.dataset import write_dataset
from envgen.errors import DataError
from envgen.files import write_text
from envgen.formats import problem_line
from envgen.movingai import write_scenario
from envgen.problem import identity, to_text
from envgen.prompts import PromptStyle
from flows.problems import Posed, solved

SUFFIXES = (".jsonl", ".parquet", ".scen", ".txt")
_SINGLE = (".scen", ".txt")


def check_output(output: Path) -> None:
    """DataError if the suffix of `output` names no format."""
    if output.suffix not in SUFFIXES:
        raise DataError(f"{output}: its suffix names no format; expected one of {', '.join(SUFFIXES)}")


def convert(found: list[Posed], source: str, output: Path, style: PromptStyle, watch: Callable[[list[Posed]], Iterable[Posed]]) -> None:
    """Write problems in the format that the suffix of `output` names, all or nothing.

    `.scen` (with its `.map` beside it) and `.txt` hold one problem. For `.parquet` each problem is solved, `watch` iterates
    over them for a progress bar; a problem without id gets its canonical identity. DataError says what does not fit.
    """
    check_output(output)
    if output.suffix in _SINGLE and len(found) != 1:
        raise DataError(f"{output}: holds one problem, {source} has {len(found)}; choose one with --id, or write .jsonl")
    if output.suffix == ".scen":
        write_scenario(output, found[0].problem)
    elif output.suffix == ".txt":
        write_text(output, to_text(found[0].problem) + "\n")
    elif output.suffix == ".jsonl":
        write_text(output, "".join(json.dumps(problem_line(one.problem)) + "\n" for one in found))
    else:
        named = [one if one.problem.id else Posed(one.problem.model_copy(update={"id": identity(one.problem)}), one.stored) for one in found]
        write_dataset(output, solved(watch(named), source), style, {"source": Path(source).name})
