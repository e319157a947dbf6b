"""Write an export: a package for verifiers, or a Hugging Face data set."""

import json
import re
import shutil
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import jinja2
import pyarrow as pa

import envgen
from envgen.dataset import write_table
from envgen.environment import Environment
from envgen.errors import ConfigError, RunDirectoryError
from envgen.files import canonical_json, move_directory, write_json, write_text
from envgen.rows import instance_row
from infra.config.versions import code_version
from infra.export import Target
from infra.runs.files import CONFIG, CURRICULUM, TRAIN_DATA, VALIDATION
from infra.runs.run import Run

MARK = "about.json"
"""In every export; a folder without it is not replaced."""
JUDGE_NEEDS = ("drawsvg", "numpy", "pyarrow", "pydantic>=2,<3")
"""What the copy of `envgen` in a package imports to judge."""
_COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("stratum", pa.string()),
        ("labels", pa.list_(pa.string())),
        ("prompt", pa.string()),
        ("reference", pa.string()),
        ("instance", pa.string()),
    ]
)


def export(run: Run, stage: int, target: Target, output: Path) -> Path:
    """Write the data of a stage to the folder `output`, which is replaced if it is an export; returns it.

    RunDirectoryError if the stage has no data, ConfigError for a folder that holds something else.
    """
    output = output.resolve()
    if not run.has(TRAIN_DATA, stage):
        stages = sorted(path.parent.name for path in run.directory.glob(f"stage-*/{TRAIN_DATA.name}"))
        with_data = f"stages of the run with data: {', '.join(stages) or 'none yet'}"
        raise RunDirectoryError(f"{run.folder(stage)}: has no training data; {with_data}")
    if output.is_file() or (output.is_dir() and any(output.iterdir()) and not (output / MARK).is_file()):
        raise ConfigError(f"{output}: is there already, and no export; choose another -o, or remove it")
    preset = run.read(CURRICULUM).preset
    environment, style = preset.task, preset.prompt_style
    about = {
        "run": run.directory.name,
        "stage": stage,
        "target": target,
        "environment": preset.environment.model_dump(mode="json"),
        "environment_version": environment.version,
        "prompt_style": style,
        "config": run.read(CONFIG, stage).model_dump(mode="json"),
        "train_sha256": run.digest(TRAIN_DATA, stage),
        "validation_sha256": run.digest(VALIDATION),
        "licence": environment.licence,
        "envwright": code_version(),
    }
    rows = {
        name: [_row(environment, style, instance) for instance in instances]
        for name, instances in (("train", run.read(TRAIN_DATA, stage)), ("validation", run.read(VALIDATION)))
    }
    partial = output.with_name(f".{output.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    if target == "hf":
        for name, part in rows.items():
            columns = [
                {**row, "reference": row["answer"], "instance": canonical_json(row["instance"])}
                for row in part
            ]
            write_table(partial / f"{name}.parquet", pa.Table.from_pylist(columns, schema=_COLUMNS))
        names = {}
    else:
        names = _write_package(partial, environment, about, rows)
    counts, config = {name: len(part) for name, part in rows.items()}, json.dumps(about["config"], indent=2)
    _render(
        partial / "README.md", about=about, space=environment.space, counts=counts, config=config, **names
    )
    write_json(partial / MARK, about)
    shutil.rmtree(output, ignore_errors=True)
    move_directory(partial, output)
    return output


def _row(environment: Environment, style: str, instance: Any) -> dict[str, Any]:
    """What every target says of an instance."""
    return {
        "id": instance.id,
        "stratum": instance.stratum,
        "labels": sorted(instance.labels),
        "prompt": environment.prompt(instance, style),
        "answer": environment.reference(instance),
        "instance": instance_row(environment, instance, style),
    }


def _write_package(
    folder: Path, environment: Environment, about: dict[str, Any], rows: dict[str, list[Any]]
) -> dict[str, str]:
    """Write a package for verifiers, except for its README; return its names."""
    package = re.sub(r"[^a-z0-9]+", "-", f"{about['run']}-stage-{about['stage']}".lower()).strip("-")
    module = re.sub(r"^(?=\d)", "run_", package.replace("-", "_"))
    name = "".join(part.capitalize() for part in module.split("_"))
    inside, here = folder / module, Path(envgen.__file__).parent
    shutil.copytree(here, inside / "vendor" / "envgen", ignore=shutil.ignore_patterns("__pycache__"))
    if file := environment.file:
        # A generator of the user goes along; its path starts from the package.
        shutil.copy(file, inside / Path(file).name)
        about["environment"]["options"]["file"] = Path(file).name
    for part, lines in rows.items():
        write_text(inside / f"{part}.jsonl", "".join(canonical_json(line) + "\n" for line in lines))
    write_json(inside / MARK, about)
    _render(inside / "taskset.py", about=about, name=name)
    exported = f'from {module}.taskset import {name}Taskset\n\n__all__ = ["{name}Taskset"]\n'
    write_text(inside / "__init__.py", exported)
    names, dependencies = {"package": package, "module": module}, sorted(_dependencies(environment))
    _render(folder / "pyproject.toml", about=about, dependencies=dependencies, **names)
    return names


def _render(path: Path, **values: Any) -> None:
    """Write a file from the template of its name."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    write_text(path, environment.get_template(f"{path.name}.j2").render(values))


def _dependencies(environment: Environment) -> Iterator[str]:
    """Requirements of a package that judges."""
    yield "verifiers>=0.4,<0.5"
    yield from JUDGE_NEEDS
    yield from environment.requirements
    for entry in entry_points(group="envwright.environments", name=environment.name):
        if entry.dist:
            yield f"{entry.dist.name}=={entry.dist.version}"
