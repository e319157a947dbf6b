"""`envwright doctor`: what is installed here, what can be reached, and what is known not to work together."""

import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version
from rich.console import Console

from envgen.errors import ModelError
from envgen.extras import install
from envgen.frozen import Frozen
from infra.config.settings import Settings, without_password
from infra.config.versions import code_version, library_versions
from policy.chat.vllm_server import vllm_python
from policy.checkpoints import TINY_DIRECTORY

# What was seen to work together; anything outside is known to fail or unknown.
TESTED = {
    "torch": "==2.13.*",
    "transformers": ">=5.10.4,<5.18",
    "trl": "==1.16.*",
    "prefect": "==3.7.7",
    "fastapi": "<0.137",
    "mlflow": "==3.17.*",
    "pydantic": "==2.*",
}
REASONS = {
    "prefect": "3.7.8 and later need a FastAPI that vLLM 0.31 forbids",
    "fastapi": "Prefect 3.7.7 fails in every flow on FastAPI 0.165",
    "trl": "TRL checks the vLLM version it was made for",
}
CUDA_WHEELS = ("torchvision", "torchaudio", "torchcodec")
_DEVICES = (
    "import torch; print('cuda: ' + torch.cuda.get_device_name(0) if torch.cuda.is_available() else f'cpu:"
    " {torch.get_num_threads()} threads')"
)


class Findings(Frozen):
    """What `doctor` found."""

    envwright: str
    """Its version."""
    libraries: dict[str, str]
    """Library -> the version that is installed."""
    device: str
    vllm: str
    runs: Path
    """Folder of the runs."""
    base_policy: bool
    """Whether the shipped base policy is there."""
    mlflow: str
    """Address of the store, and whether a server there answers."""
    prefect: str
    problems: tuple[str, ...]
    """A sentence each; empty if this installation may run."""


def examine() -> Findings:
    """Look at this installation; takes some seconds."""
    versions, settings = library_versions(), Settings()
    device = subprocess.run([sys.executable, "-c", _DEVICES], capture_output=True, text=True, timeout=120)
    vllm, vllm_problems = _vllm(settings.vllm_python)
    folder_problems = list(_folder_problems(settings.runs))
    mlflow = without_password(settings.tracking_uri)
    api = without_password(os.environ.get("PREFECT_API_URL") or "")
    problems = [*version_problems(versions), *_wheel_problems(versions), *vllm_problems]
    problems += folder_problems
    if device.returncode:
        problems.append("torch cannot be imported; install it again: pip install torch==2.13.0")
    temporary = "no server configured; a temporary one is started for each run"
    return Findings(
        envwright=code_version(),
        libraries=versions,
        device=device.stdout.strip() or "torch cannot be imported: " + device.stderr.strip()[-200:],
        vllm=vllm,
        runs=settings.runs.resolve(),
        base_policy=(TINY_DIRECTORY / "config.json").is_file(),
        mlflow=f"{mlflow} {_reach(mlflow)}",
        prefect=f"{api} {_reach(api)}" if api else temporary,
        problems=tuple(problems),
    )


def show(found: Findings, console: Console) -> None:
    """Print the findings."""
    console.print(f"envwright {found.envwright}")
    for name, number in found.libraries.items():
        tested = f"tested: {TESTED[name]}" if name in TESTED else ""
        console.print(f"  {name:13} {number:20} {tested}", highlight=False)
    console.print(f"device: {found.device}", highlight=False)
    console.print(f"vLLM: {found.vllm}", highlight=False)
    writable = "(not writable)" if list(_folder_problems(found.runs)) else "(writable)"
    console.print(f"runs: {found.runs} {writable}")
    shipped = "shipped" if found.base_policy else "missing; make it with envwright bootstrap"
    console.print(f"base policy: {shipped}")
    console.print(f"MLflow: {found.mlflow}")
    console.print(f"Prefect: {found.prefect}")
    for problem in found.problems:
        console.print(f"[red]problem:[/red] {problem}", highlight=False)
    console.print(
        f"{len(found.problems)} problems; install the tested set: {install('dev')}"
        if found.problems
        else "[green]ready[/green]"
    )


def version_problems(versions: dict[str, str]) -> list[str]:
    """One sentence for every library outside of the set that was seen to work together."""
    problems = []
    for name, allowed in TESTED.items():
        number = versions.get(name)
        if number is None:
            if not name.startswith("vllm"):
                problems.append(f"{name} is not installed; tested: {allowed}")
        elif not SpecifierSet(allowed).contains(Version(number), prereleases=True):
            reason = f" ({REASONS[name]})" if name in REASONS else ""
            problems.append(
                f"{name} {number} is outside of the tested {allowed}{reason}; install: pip install"
                f" '{name}{allowed}'"
            )
    return problems


def _vllm(chosen: Path | None) -> tuple[str, list[str]]:
    """The interpreter of vLLM, and its problems; a missing one is a problem only where one was chosen."""
    try:
        return vllm_python(chosen), []
    except ModelError as error:
        return ("not usable", [str(error)]) if chosen else ("none; needed for engine.backend: vllm", [])


def _wheel_problems(versions: dict[str, str]) -> Iterator[str]:
    """CUDA builds of torch's companions beside a CPU torch break `import transformers`."""
    if "+cpu" not in versions.get("torch", ""):
        return
    for name in CUDA_WHEELS:
        try:
            number = version(name)
        except PackageNotFoundError:
            continue
        if "+cpu" not in number:
            yield (
                f"{name} {number} is no CPU build and breaks transformers beside a CPU torch; remove it: pip"
                f" uninstall {name}"
            )


def _folder_problems(folder: Path) -> Iterator[str]:
    existing = next(p for p in [folder.resolve(), *folder.resolve().parents] if p.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        yield f"{folder}: cannot be written ({error.strerror}); set ENVWRIGHT_RUNS to a folder of yours"


def _reach(url: str) -> str:
    if not url.startswith("http"):
        return ""
    try:
        with urllib.request.urlopen(url.rstrip("/") + "/health", timeout=5):
            return "(reachable)"
    except (urllib.error.URLError, OSError) as error:
        return f"(not reachable: {error})"
