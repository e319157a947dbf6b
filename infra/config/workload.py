"""How many tokens a curriculum generates and trains on, under a stated mean length of answers."""

from pydantic import Field

from engineer.engineers.registry import find_engineer
from envgen.errors import ConfigError
from envgen.frozen import Frozen
from infra.config.lengths import DESIGN_PROMPT_TOKENS
from infra.config.preset import Preset
from policy.grpo.batches import Batches
from policy.grpo.launch import Sharding
from policy.grpo.train_spec import answer_tokens


class Work(Frozen):
    """Answers of one kind."""

    answers: int
    prompt_tokens: int
    generated: int
    """Tokens of the answers."""
    trained: int = 0
    """Tokens of prompts and answers in forward and backward passes, padding left out."""

    def times(self, count: int) -> "Work":
        """The same, done `count` times."""
        return Work(**{name: value * count for name, value in self.model_dump().items()})

    def __add__(self, other: "Work") -> "Work":
        return Work(**{name: value + getattr(other, name) for name, value in self.model_dump().items()})


class Throughput(Frozen):
    """What a machine does, all of its GPUs together; stated by who knows it, never assumed."""

    generated: float = Field(gt=0)
    """Tokens generated a second."""
    trained: float = Field(gt=0)
    """Tokens trained on a second, forward and backward."""

    def hours(self, work: Work) -> float:
        """Hours of the work, one thing after the other; without loading models and copying weights."""
        return (work.generated / self.generated + work.trained / self.trained) / 3600


class Workload(Frozen):
    """The work of a curriculum."""

    stages: int
    optimizer_steps: int
    """Of a stage."""
    answer_length: int
    """Mean tokens of an answer in training."""
    training: Work
    """Of a stage; so is engineer."""
    evaluation: Work
    """Of one policy on the validation set."""
    engineer: Work

    @property
    def stage(self) -> Work:
        """All work of a stage."""
        return self.training + self.evaluation + self.engineer

    @property
    def total(self) -> Work:
        """All work: the base policy is evaluated once, before the first stage."""
        return self.evaluation + self.stage.times(self.stages)


def workload(preset: Preset, answer_length: int | None = None) -> Workload:
    """The work that a preset asks for; answers have half of their limit on average unless a mean length is
    given.

    ConfigError if answers cannot be that long, or a stage has too few instances for one step.
    """
    limit, asked = answer_tokens(preset.trl), preset.prompt_tokens()
    if answer_length is not None and not 1 <= answer_length <= limit:
        raise ConfigError(
            f"--answer-length: {answer_length} is not between 1 and trl.max_completion_length, {limit}; give"
            " the mean length of an answer"
        )
    batches = Batches.of(preset.trl, Sharding.of(preset.training).processes)
    steps = batches.optimizer_steps(preset.instances, preset.epochs)
    if not steps:
        raise ConfigError(
            f"instances: {preset.instances} are fewer than the {batches.prompts} prompts answered together;"
            " raise it, or lower the batch"
        )
    mean = answer_length or limit // 2
    answers = round(batches.prompts_of_epoch(preset.instances) * preset.epochs) * batches.group
    judged = min(answer_length or preset.max_answer_tokens // 2, preset.max_answer_tokens)
    questions = 1 if find_engineer(preset.engineer.name).asks else 0
    validation = sum(count for _, _, count in preset.validation.parts(preset.space))
    return Workload(
        stages=preset.stages,
        optimizer_steps=steps,
        answer_length=mean,
        training=_work(answers, asked, mean, batches.iterations),
        evaluation=_work(validation, asked, judged),
        engineer=_work(questions, DESIGN_PROMPT_TOKENS, preset.effective_engineer().max_tokens // 2),
    )


def _work(answers: int, prompt_length: int, answer_length: int, passes: int = 0) -> Work:
    return Work(
        answers=answers,
        prompt_tokens=answers * prompt_length,
        generated=answers * answer_length,
        trained=answers * (prompt_length + answer_length) * passes,
    )
