"""A stage's data and reward for other trainers."""

from typing import Literal

Target = Literal["verifiers", "jsonl", "hf"]
"""A package for verifiers, rows for NeMo-Gym, a Hugging Face data set."""
