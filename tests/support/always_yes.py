"""A generator whose questions have one answer, which a model of a few thousand weights learns in seconds."""

from random import Random

from pydantic import BaseModel, Field


class Config(BaseModel):
    """Settings of the generator."""

    digits: int = Field(default=2, ge=1, le=6, description="the digits of the number")


STRATA = {"short": {"digits": (2, 3)}, "long": {"digits": (4, 6)}}
TASK = "says yes"
REFERENCE = "yes"


def generate(rng: Random, config: Config) -> tuple[str, str, dict]:
    """A question and its reference."""
    number = rng.randrange(10 ** (config.digits - 1), 10**config.digits)
    return f"Is {number} a number?", REFERENCE, {}


def score(answer: str, entry: dict) -> float:
    """1 for yes."""
    return float(answer.strip() == "yes")
