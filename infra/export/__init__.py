"""A stage's data and reward for other trainers."""

from typing import Literal

Target = Literal["verifiers", "hf"]
"""A package for verifiers, or a Hugging Face data set."""
