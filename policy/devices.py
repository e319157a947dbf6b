"""GPUs and cores of this machine, and how they are dealt out to curricula that run at the same time.

Never asked of torch, which the processes that deal do not import."""

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

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


class Shares:
    """GPUs in blocks of equal size; whoever asks gets the block that is used least."""

    def __init__(self, devices: Sequence[str], jobs: int, needed: int = 1) -> None:
        """Blocks for `jobs` curricula at a time, of which each needs this many GPUs.

        With too few devices, curricula share blocks. Without any, or for one job, nothing is dealt out.
        ConfigError if there are too few for a single curriculum.
        """
        self.shared, self._lock = False, threading.Lock()
        self._users: dict[str, int] = {}
        if not devices or jobs == 1:
            return
        if needed > len(devices):
            raise ConfigError(
                f"a curriculum needs {needed} GPUs (training.processes, or engine.data_parallel"
                f" x engine.tensor_parallel), {len(devices)} can be seen ({','.join(devices)}); lower them,"
                f" or set {VISIBLE} to more"
            )
        size = max(needed, len(devices) // jobs)
        blocks = [devices[first : first + size] for first in range(0, len(devices) - size + 1, size)][:jobs]
        self._users = {",".join(block): 0 for block in blocks}
        self.shared = len(blocks) < jobs

    @classmethod
    def visible(cls, jobs: int, needed: int) -> Self:
        """Deal out the GPUs that can be seen, with a warning if curricula have to share some."""
        shares = cls(visible_devices(), jobs, needed)
        if shares.shared:
            logging.getLogger("envwright").warning(
                "%d curricula at a time share the GPUs %s; if memory does not suffice, lower --jobs to %d",
                jobs,
                " and ".join(shares.blocks),
                len(shares.blocks),
            )
        return shares

    @property
    def blocks(self) -> list[str]:
        """The GPUs of each block, as CUDA_VISIBLE_DEVICES names them."""
        return list(self._users)

    @contextmanager
    def lent(self) -> Iterator[dict[str, str]]:
        """What the environment of a child has to say, so that it sees the GPUs of one block.

        The block is given back at the end.
        """
        if not self._users:
            yield {}
            return
        with self._lock:
            block = min(self._users, key=self._users.__getitem__)
            self._users[block] += 1
        try:
            yield {VISIBLE: block}
        finally:
            with self._lock:
                self._users[block] -= 1


def share_of_cores(jobs: int) -> dict[str, str]:
    """Return how many threads each of `jobs` processes may start; a value that the user set stays."""
    share = str(max(1, (os.cpu_count() or 1) // jobs))
    return {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", share)} if jobs > 1 else {}
