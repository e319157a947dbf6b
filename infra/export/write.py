"""Write an export: a package for verifiers, or a Hugging Face data set."""

import re
import shutil
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pyarrow as pa

import envgen
from envgen.dataset import write_table
from envgen.environment import Environment
from envgen.errors import ConfigError, RunDirectoryError
from envgen.files import canonical_json, move_directory, write_json, write_text
from envgen.rows import instance_row
from infra.config.versions import code_version
from infra.report import page
from infra.runs.files import CONFIG, TRAIN_DATA, VALIDATION
from infra.runs.run import Run

JUDGE_NEEDS = ("verifiers>=0.4,<0.5", "numpy", "pyarrow", "pydantic>=2,<3")
"""What a package needs besides the requirements of its environment."""
_TEXT = ("id", "stratum", "prompt", "reference", "instance")
_COLUMNS = pa.schema([*((name, pa.string()) for name in _TEXT), ("labels", pa.list_(pa.string()))])


def export(run: Run, stage: int, target: str, output: Path) -> Path:
    """Write the data of a stage to the new folder `output` for `verifiers` or `hf`, and return it;
    RunDirectoryError if the stage has no data, ConfigError if the folder exists."""
    if not run.has(TRAIN_DATA, stage):
        stages = sorted(path.parent.name for path in run.directory.glob(f"stage-*/{TRAIN_DATA.name}"))
        with_data = f"stages of the run with data: {', '.join(stages) or 'none yet'}"
        raise RunDirectoryError(f"{run.folder(stage)}: has no training data; {with_data}")
    output = output.resolve()
    if output.exists():
        raise ConfigError(f"{output}: exists already; choose another -o, or remove it")
    preset = run.preset
    environment, style = preset.task, preset.prompt_style
    about = {
        "run": run.directory.name,
        "stage": stage,
        "target": target,
        "environment": preset.environment.model_dump(mode="json"),
        "environment_version": environment.version,
        "prompt_style": style,
        "chat_template_kwargs": preset.chat_template_kwargs,
        "config": run.read(CONFIG, stage).model_dump(mode="json"),
        "train_sha256": run.digest(TRAIN_DATA, stage),
        "validation_sha256": run.digest(VALIDATION),
        "licence": environment.licence,
        "envwright": code_version(),
    }
    data = {"train": run.read(TRAIN_DATA, stage), "validation": run.read(VALIDATION)}
    rows = {name: [_row(environment, style, item) for item in part] for name, part in data.items()}
    partial = output.with_name(f".{output.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    names = {}
    if target == "hf":
        for name, part in rows.items():
            lines = [{**row, "instance": canonical_json(row["instance"])} for row in part]
            write_table(partial / f"{name}.parquet", pa.Table.from_pylist(lines, schema=_COLUMNS))
    else:
        names = _write_package(partial, environment, about, rows)
    counts = {name: len(part) for name, part in rows.items()}
    _render(partial / "README.md", about=about, space=environment.space, counts=counts, **names)
    write_json(partial / "about.json", about)
    move_directory(partial, output)
    return output


def _row(environment: Environment, style: str, instance: Any) -> dict[str, Any]:
    """What every target says of an instance."""
    return {
        "id": instance.id,
        "stratum": instance.stratum,
        "labels": sorted(instance.labels),
        "prompt": environment.prompt(instance, style),
        "reference": environment.reference(instance),
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
        # A file of the user goes along; its path starts from the package.
        shutil.copy(file, inside / file.name)
        options = about["environment"]["options"]
        for option in (option for option, value in options.items() if isinstance(value, str)):
            options[option] = options[option].replace(str(file), file.name)
    for part, lines in rows.items():
        write_text(inside / f"{part}.jsonl", "".join(canonical_json(line) + "\n" for line in lines))
    write_json(inside / "about.json", about)
    _render(inside / "taskset.py", about=about, name=name)
    exported = f'from {module}.taskset import {name}Taskset\n\n__all__ = ["{name}Taskset"]\n'
    write_text(inside / "__init__.py", exported)
    plugins = entry_points(group="envwright.environments", name=environment.name)
    dependencies = {*JUDGE_NEEDS, *environment.requirements}
    dependencies |= {f"{entry.dist.name}=={entry.dist.version}" for entry in plugins if entry.dist}
    names = {"package": package, "module": module}
    _render(folder / "pyproject.toml", about=about, dependencies=sorted(dependencies), **names)
    return names


def _render(path: Path, **values: Any) -> None:
    """Write a file from the template of its name."""
    templates = page.environment(Path(__file__).parent)
    write_text(path, templates.get_template(f"{path.name}.j2").render(values))
