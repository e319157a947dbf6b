"""Runs, checkpoints and design calls in MLflow, which is a record and never the source of truth."""
