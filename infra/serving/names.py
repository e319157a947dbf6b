"""Names on a Prefect server that several modules agree on; importing this costs nothing."""

TAG = "envwright"
"""Tag of our deployments, which their runs inherit, and of the runs below them: the janitor touches no
others."""
LOCAL, GPU = "local", "gpu"
POOLS: dict[str, int | None] = {LOCAL: None, GPU: 1}
"""Work pools of process workers, with how many runs each holds at a time."""
DEFAULT_QUEUE, JANITOR_QUEUE = "default", "janitor"
