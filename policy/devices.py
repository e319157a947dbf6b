"""GPUs and cores of this machine, and how they are dealt out to curricula at the same time; without torch."""

import logging
import os
from pathlib import Path

from envgen.errors import ConfigError

VISIBLE = "CUDA_VISIBLE_DEVICES"
_NONE = ("NoDevFiles", "none", "void")


def visible_devices() -> list[str]:
    """The GPUs that a child would see, as CUDA_VISIBLE_DEVICES names them: by index, or UUID."""
    value = os.environ.get(VISIBLE)
    if value is None:
        # NVIDIA's driver makes a file for each GPU.
        return [str(index) for index, _ in enumerate(Path("/dev").glob("nvidia[0-9]*"))]
    names = []
    for name in filter(None, map(str.strip, value.split(","))):
        if name.startswith("-") or name in _NONE:
            break  # as CUDA does: what follows is not seen
        names.append(name)
    return names


def device_blocks(jobs: int, needed: int) -> list[str]:
    """Deal out the visible GPUs to `jobs` curricula at a time, as CUDA_VISIBLE_DEVICES names them: in blocks
    of equal size, of at least `needed` GPUs. With too few, curricula share blocks, with a warning. Empty
    without GPUs, or for one job. ConfigError if there are too few for a single curriculum."""
    devices = visible_devices()
    if not devices or jobs == 1:
        return []
    if needed > len(devices):
        raise ConfigError(
            f"a curriculum needs {needed} GPUs (training.processes, or engine.data_parallel"
            f" x engine.tensor_parallel), {len(devices)} can be seen ({','.join(devices)}); lower them,"
            f" or set {VISIBLE} to more"
        )
    size = max(needed, len(devices) // jobs)
    blocks = [",".join(devices[first : first + size]) for first in range(0, len(devices) - size + 1, size)]
    if len(blocks) < jobs:
        words = "%d curricula at a time share the GPUs %s; if memory does not suffice, lower --jobs to %d"
        logging.getLogger("envwright").warning(words, jobs, " and ".join(blocks), len(blocks))
    return [blocks[job % len(blocks)] for job in range(jobs)]


def share_of_cores(jobs: int) -> dict[str, str]:
    """Return how many threads each of `jobs` processes may start; a value that the user set stays."""
    share = str(max(1, (os.cpu_count() or 1) // jobs))
    return {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", share)} if jobs > 1 else {}
