"""Lineage in MLflow: a run a curriculum, below it one a stage, a model a checkpoint, a trace a proposal.

Everything is found by a tag or an id before it is made, so recording a stage twice changes nothing. MLflow is
a record, never the source of truth: the stage directories decide what is done.
"""

import os

# Read when mlflow is imported: a server that is down costs seconds, not minutes.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "5")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")

from infra.lineage.columns import flat
from infra.lineage.recorder import DataSetRef, Recorder

__all__ = ["DataSetRef", "Recorder", "flat"]
