"""Make the start policy of the tiny preset from nothing."""

from pathlib import Path

from flows.environment import prepare

prepare()

from prefect import flow

from infra.preset import Preset
from policy.tiny.spec import BootstrapRecipe
from tasks.bootstrap import bootstrap_policy


@flow(name="bootstrap")
def bootstrap(output: Path, preset: Preset, recipe: BootstrapRecipe, continue_from: Path | None = None) -> None:
    """Train a start policy that has seen no board of the preset's validation set."""
    bootstrap_policy(output, preset, recipe, continue_from)
