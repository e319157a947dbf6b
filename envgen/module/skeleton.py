"""Questions for a policy to train on: one file that envwright runs in a child process.

`envwright check THIS_FILE` says what is wrong with it. Change the parts marked 1 to 5.
"""

from random import Random

from pydantic import BaseModel, Field


# 1. What can be set. A number with both bounds can be a knob, which the engineer moves between stages.
class Config(BaseModel):
    """Settings of the generator."""

    digits: int = Field(default=2, ge=1, le=6, description="the digits of each factor")


# 2. What rates are counted by, from easy to hard: a range (low, high) makes a knob, a number stays as it is.
# Ranges should not overlap, or one question belongs to two strata.
STRATA = {"short": {"digits": (2, 3)}, "long": {"digits": (4, 6)}}
TASK = "multiplies whole numbers"  # completes "a language model that ..."


# 3. All randomness comes from `rng`: the same seed gives the same question, in every process.
def generate(rng: Random, config: Config) -> tuple[str, str, dict]:
    """A question, an answer that scores 1, and whatever else `score` needs, as JSON values."""
    low, high = 10 ** (config.digits - 1), 10**config.digits
    a, b = rng.randrange(low, high), rng.randrange(low, high)
    return f"What is {a} * {b}?", str(a * b), {"factors": [a, b]}


# 4. The answer is what a model wrote: any text. Never evaluate it. Partial credit lies between 0 and 1.
def score(answer: str, entry: dict) -> float:
    """From 0 to 1; only 1 counts as right."""
    said = answer.strip()
    if not (said.isascii() and said.isdecimal()) or len(said) > 20:
        return 0.0
    return float(int(said) == int(entry["answer"]))


# 5. Equal problems get equal texts, so that none is in both training and validation. May be left out: then
# questions with equal words are equal, and 12 * 34 and 34 * 12 are two.
def identity(entry: dict) -> str:
    """What makes this problem the same as another one."""
    return " ".join(map(str, sorted(entry["metadata"]["factors"])))
