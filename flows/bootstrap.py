"""Make a base policy, from nothing or from a chat model."""

from pathlib import Path

from prefect import flow

from policy.tiny.spec import BootstrapRecipe
from tasks.bootstrap import bootstrap_policy


@flow(name="bootstrap")
def bootstrap(output: Path, recipe: BootstrapRecipe) -> None:
    """Train a base policy that has seen no instance that policies are judged on."""
    bootstrap_policy(output, recipe)
