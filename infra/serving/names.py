"""Names on a Prefect server that several modules agree on; importing this costs nothing."""

import socket

TAG = "envwright"
"""Tag of our deployments, which their runs inherit, and of the runs below them: the janitor touches no
others."""
LOCAL, GPU = "local", "gpu"
POOLS: dict[str, int | None] = {LOCAL: None, GPU: 1}
"""Work pools of process workers, with how many runs each holds at a time."""
DEFAULT_QUEUE = "default"
COMPARISONS = "comparisons"
"""Queue of the local pool for what only waits for other runs: it has no limit, so that it keeps none of their
places."""


def worker_name(pool: str) -> str:
    """What the worker that `envwright serve` starts on this machine is called."""
    return f"{pool} on {socket.gethostname()}"
