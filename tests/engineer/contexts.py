"""Design contexts and real chat models for the tests of `engineer`."""

from collections.abc import Sequence

from hypothesis import settings

from engineer.context import ConfigSpace, DesignContext, StageRecord
from envgen.breakdown import Breakdown, Difference, SizeBreakdown
from envgen.config import SUM_TOLERANCE, EnvConfig, SizeConfig
from envgen.mapf.verifier import FailureCategory
from policy.chat.contract import Completion, Conversation, Progress, Sampling

repeatable = settings(derandomize=True, deadline=None)

SPACE = ConfigSpace(map_sizes=(3, 5), min_hole_ratio=0.2, max_hole_ratio=0.4)


def env_config(sizes: dict[int, tuple[float, float, float]]) -> EnvConfig:
    return EnvConfig(sizes={size: SizeConfig(data_ratio=data, hole_ratio=holes, wait_ratio=waits) for size, (data, holes, waits) in sizes.items()})


def size_breakdown(n: int, valid: int, optimal: int) -> SizeBreakdown:
    """Failures are split three to one between conflicts and goals not reached."""
    failed = n - valid
    failures = dict.fromkeys(FailureCategory, 0) | {FailureCategory.CONFLICT: 3 * failed // 4, FailureCategory.GOAL_NOT_REACHED: failed - 3 * failed // 4}
    return SizeBreakdown(n=n, valid=valid, optimal=optimal, failures=failures)


DEFAULT = env_config({3: (0.5, 0.3, 0.25), 5: (0.5, 0.3, 0.25)})
EASIER = env_config({3: (0.6, 0.3, 0.5), 5: (0.4, 0.25, 0.0)})
LATEST = env_config({3: (0.7, 0.35, 0.75), 5: (0.3, 0.2, 0.1)})

RECORDS = (
    StageRecord(stage=0, config=DEFAULT, breakdown=Breakdown(sizes={3: size_breakdown(40, 36, 30), 5: size_breakdown(40, 8, 4)})),
    StageRecord(stage=1, config=EASIER, breakdown=Breakdown(sizes={3: size_breakdown(40, 38, 33), 5: size_breakdown(40, 12, 6)})),
    StageRecord(stage=2, config=LATEST, breakdown=Breakdown(sizes={3: size_breakdown(40, 40, 35), 5: size_breakdown(40, 20, 10)})),
)


def design_context(stage: int = 2, rationale: str = "Less of 5x5.") -> DesignContext:
    """The context after a stage of a made-up curriculum of four."""
    return DesignContext(
        space=SPACE,
        current=RECORDS[stage],
        history=RECORDS[:stage],
        previous_rationale=rationale if stage else "",
        stages=4,
        instances=480,
        epochs=2,
    )


TRAINING = {
    "algorithm": "GRPO",
    "agents": 2,
    "group_size": 8,
    "learning_rate": 0.0003,
    "answer_tokens": 40,
    "reward": {"valid": 1.0, "optimal": 0.5},
    "hyperparameters": {"beta": 0.0, "loss_type": "dapo", "bf16": False},
}


def measured_context() -> DesignContext:
    """The context after the last stage with all that can be known of it and of its training."""
    known = {"zero_variance": {3: 0.875, 5: 0.25}, "change": {3: Difference(value=0.05, low=-0.02, high=0.12), 5: Difference(value=0.2, low=0.1, high=0.3)}}
    context = design_context()
    sizes = {
        size: part.model_copy(update={"waiting": 10, "waiting_valid": max(part.valid - 30, part.valid // 20)})
        for size, part in context.current.breakdown.sizes.items()
    }
    current = context.current.model_copy(update={**known, "breakdown": Breakdown(sizes=sizes)})
    return context.model_copy(update={"current": current, "training": TRAINING})


def assert_legal(config: EnvConfig, space: ConfigSpace) -> None:
    assert tuple(config.sizes) == space.map_sizes
    assert abs(sum(c.data_ratio for c in config.sizes.values()) - 1) <= SUM_TOLERANCE
    for c in config.sizes.values():
        assert 0 <= c.data_ratio <= 1
        assert space.min_hole_ratio <= c.hole_ratio <= space.max_hole_ratio
        assert 0 <= c.wait_ratio <= 1


class ListModel:
    """A chat model that answers from a list, whatever it is asked, and remembers the questions."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[Conversation, Sampling]] = []

    def complete(self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None) -> list[Completion]:
        found = []
        for conversation in conversations:
            self.asked.append((conversation, sampling))
            found.append(Completion(text=self.answers.pop(0), prompt_tokens=100, completion_tokens=7, finish_reason="stop"))
        return found
