"""Separate the answer of a completion from the thinking before it."""

OPEN, CLOSE = "<think>", "</think>"


def final_answer(completion: str) -> str:
    """Return the text after the last `</think>`; empty if a `<think>` is still open. Linear time."""
    answer = completion.rpartition(CLOSE)[2]
    return "" if OPEN in answer else answer
