"""Process-wide settings of Prefect, set before it is imported. What the user has set is left alone."""

import os

_DEFAULTS = {
    "PREFECT_LOGGING_EXTRA_LOGGERS": "envwright",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    # The first start of a server in a process can take half a minute on a slow disk.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
}


def prepare() -> None:
    """Fill in the defaults."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
