"""Questions and rewards for the library verifiers 0.4: one question and one answer a task.

envwright runs this file with the interpreter of `.venv-verifiers`. Change the parts marked 1 to 3.
"""

from collections.abc import Iterator

import verifiers.v1 as vf  # pyright: ignore[reportMissingImports]


# 1. What a task has beside its prompt. The preset names the field of references, and the field of strata.
class QuizData(vf.TaskData):
    """One row."""

    answer: str
    level: str


# 2. The rewards of an answer; the sum of the weighted rewards has to lie between 0 and 1.
class QuizTask(vf.Task[QuizData]):
    """One question, one answer."""

    @vf.reward(weight=0.9)
    async def right(self, trace: vf.Trace) -> float:
        """Whether the last word is the reference."""
        return float(trace.last_reply.split()[-1:] == [self.data.answer])

    @vf.reward(weight=0.1)
    async def short(self, trace: vf.Trace) -> float:
        """Share of the words that are needed."""
        return 1 / max(1, len(trace.last_reply.split()))


# 3. The tasks. No two should have equal prompts.
class QuizTaskset(vf.Taskset[QuizTask, vf.TasksetConfig]):
    """Sums of two numbers, of which the second one has one to three digits."""

    def load(self) -> Iterator[QuizTask]:
        """All tasks, always in the same order."""
        for digits, level in enumerate(("easy", "medium", "hard"), start=1):
            for number in range(20):
                first, second = 7 * number + 3, 10**digits - 1 - number % 9
                prompt, answer = f"What is {first} + {second}?", str(first + second)
                yield QuizTask(QuizData(prompt=prompt, answer=answer, level=level), self.config.task)


__all__ = ["QuizTaskset"]
