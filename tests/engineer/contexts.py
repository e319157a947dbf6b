"""Design contexts and real chat models for the tests of `engineer`."""

from collections.abc import Mapping, Sequence

from hypothesis import settings
from support.boards import boards_config as env_config

from engineer.context import DesignContext, FailedAnswer, StageRecord
from engineer.contract import Proposal
from engineer.propose import Fit, design
from engineer.spec import EngineerSpec
from envgen.breakdown import Breakdown, Counts, Labelled
from envgen.config import SHARE, SUM_TOLERANCE, EnvConfig
from envgen.estimates import Difference
from envgen.mapf.space import WAIT_REQUIRED, Options, space_of
from envgen.mapf.verifier import FailureCategory
from envgen.space import Space
from envgen.sums import Options as SumsOptions
from envgen.sums import Sums
from policy.chat.contract import ChatModel, Completion, Conversation, Progress, Sampling

repeatable = settings(derandomize=True, deadline=None)


def boards(*sizes: int, low: float = 0.0, high: float = 0.5) -> Space:
    """The space of boards of these sizes."""
    return space_of(Options(map_sizes=sizes, min_hole_ratio=low, max_hole_ratio=high))


SPACE = boards(3, 5, low=0.2, high=0.4)
SUMS: Space = Sums(SumsOptions(terms=(2, 3))).space
"""The space of another environment, with its words: knobs that are no shares, no best answer."""


def sums_config(terms: Mapping[int, tuple[float, float, float]]) -> EnvConfig:
    names = ("data_ratio", "digits", "carry_ratio")
    parts = {str(count): dict(zip(names, numbers, strict=True)) for count, numbers in terms.items()}
    return EnvConfig.model_validate({"terms": parts})


def counts(n: int, valid: int, optimal: int) -> Counts:
    """Failures are split three to one between conflicts and goals not reached."""
    failed = n - valid
    failures = dict.fromkeys(map(str, FailureCategory), 0)
    failures["conflict"], failures["goal_not_reached"] = 3 * failed // 4, failed - 3 * failed // 4
    return Counts(n=n, valid=valid, optimal=optimal, failures=failures)


def waits(part: Counts, n: int, valid: int) -> Counts:
    """The same counts, of which so many need a wait."""
    return part.model_copy(update={"labels": {WAIT_REQUIRED: Labelled(n=n, valid=valid)}})


def breakdown(sizes: Mapping[int, Counts]) -> Breakdown:
    return Breakdown(strata={str(size): part for size, part in sizes.items()})


DEFAULT = env_config({3: (0.5, 0.3, 0.25), 5: (0.5, 0.3, 0.25)})
EASIER = env_config({3: (0.6, 0.3, 0.5), 5: (0.4, 0.25, 0.0)})
LATEST = env_config({3: (0.7, 0.35, 0.75), 5: (0.3, 0.2, 0.1)})

RECORDS = (
    StageRecord(stage=0, config=DEFAULT, breakdown=breakdown({3: counts(40, 36, 30), 5: counts(40, 8, 4)})),
    StageRecord(stage=1, config=EASIER, breakdown=breakdown({3: counts(40, 38, 33), 5: counts(40, 12, 6)})),
    StageRecord(stage=2, config=LATEST, breakdown=breakdown({3: counts(40, 40, 35), 5: counts(40, 20, 10)})),
)


def design_context(stage: int = 2, rationale: str = "Less of 5x5.") -> DesignContext:
    """The context after a stage of a made-up curriculum of four."""
    known = {"current": RECORDS[stage], "history": RECORDS[:stage]}
    known |= {"previous_rationale": rationale if stage else ""}
    return DesignContext(space=SPACE, stages=4, instances=480, epochs=2, **known)


def updated(context: DesignContext, **fields: object) -> DesignContext:
    """The context with other fields of its current stage."""
    return context.model_copy(update={"current": context.current.model_copy(update=fields)})


def as_it_is(config: EnvConfig) -> tuple[EnvConfig, list[str]]:
    return config, []


def designed(
    spec: EngineerSpec,
    context: DesignContext | None = None,
    model: ChatModel | None = None,
    seed: int = 7,
    fit: Fit = as_it_is,
) -> Proposal:
    """The proposal of an engineer, whose config can be drawn as it is unless `fit` says otherwise."""
    return design(spec, context or design_context(), seed, model, fit)


OPTIONS = {"beta": 0.0, "loss_type": "dapo", "bf16": False}
TRAINING = {"algorithm": "GRPO", "options": {"agents": 2, "map_sizes": [3, 5]}, "group_size": 8}
TRAINING |= {"learning_rate": 0.0003, "answer_tokens": 40, "reward": {"valid": 1.0, "optimal": 0.5}}
TRAINING |= {"hyperparameters": OPTIONS}


def measured_context(**example: str) -> DesignContext:
    """The context after the last stage with all that can be known of it and of its training, and with a
    failed answer, of which other fields may be given."""
    change = {
        "3": Difference(value=0.05, low=-0.02, high=0.12, p=0.2),
        "5": Difference(value=0.2, low=0.1, high=0.3, p=0.001),
    }
    context = design_context()
    strata = {
        name: waits(part, 10, max(part.valid - 30, part.valid // 20))
        for name, part in context.current.breakdown.strata.items()
    }
    known = {"zero_variance": {"3": 0.875, "5": 0.25}, "breakdown": Breakdown(strata=strata)}
    fields = {"stratum": "5", "question": "hole (1,1)\nPlan:", "answer": "Agent 0: (0,0)"}
    fields |= {"verdict": "Agent 0 does not reach its goal", **example}
    more = {"training": TRAINING, "examples": (FailedAnswer(**fields),)}
    return updated(context, change=change, **known).model_copy(update=more)


def assert_legal(config: EnvConfig, space: Space) -> None:
    assert tuple(config.strata) == space.names
    assert abs(sum(part.data_ratio for part in config.strata.values()) - 1) <= SUM_TOLERANCE
    for stratum in space.strata:
        part = config.strata[stratum.name]
        assert 0 <= part[SHARE] <= 1
        assert part.knobs.keys() == {knob.name for knob in stratum.knobs}
        assert all(knob.low <= part[knob.name] <= knob.high for knob in stratum.knobs)


class ListModel:
    """A chat model that answers from a list of texts or fields, whatever it is asked, and remembers the
    questions."""

    def __init__(self, *answers: str | dict) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[Conversation, Sampling]] = []

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        self.asked += [(conversation, sampling) for conversation in conversations]
        usual: dict = {"prompt_tokens": 100, "completion_tokens": 7, "finish_reason": "stop"}
        given = [self.answers.pop(0) for _ in conversations]
        return [Completion(**usual | ({"text": one} if isinstance(one, str) else one)) for one in given]
