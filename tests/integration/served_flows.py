"""Small flows that tests deploy."""

import time

from prefect import flow


@flow(name="sleeper")
def sleeper(seconds: float = 0.0) -> None:
    time.sleep(seconds)


@flow(name="curriculum")
def failing() -> None:
    raise ValueError('the "map" is gone')
