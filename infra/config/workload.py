"""Tokens that a run generates and trains on, if completions have half of their longest length."""

from envgen.frozen import Frozen
from infra.config.preset import Preset
from policy.grpo.train_spec import answer_tokens, group_size

CHARACTERS = 3
"""Characters of a token of a prompt, where the tokenizer is not on this machine."""


class Work(Frozen):
    """Completions of a run, about; the engineer's few are left out."""

    completions: int
    generated: int
    """Tokens of the completions."""
    trained: int = 0
    """Tokens of prompts and completions that are trained on."""

    def times(self, count: int) -> "Work":
        """Return the same work done `count` times."""
        return Work(**{name: value * count for name, value in self.model_dump().items()})

    def __add__(self, other: "Work") -> "Work":
        return Work(**{name: value + getattr(other, name) for name, value in self.model_dump().items()})


def evaluation_work(preset: Preset) -> Work:
    """Return the work of evaluating one policy on the validation set."""
    instances = sum(count for _, _, count in preset.validation.parts(preset.space))
    return Work(completions=instances, generated=instances * preset.max_answer_tokens // 2)


def stage_work(preset: Preset) -> Work:
    """Return the work of one stage."""
    length = answer_tokens(preset.trl) // 2
    prompt = preset.prompt_tokens() or len(preset.task.longest_prompt(preset.prompt_style)) // CHARACTERS
    completions = round(preset.instances * preset.epochs) * group_size(preset.trl)
    passes = int(preset.trl.get("num_iterations") or 1)
    training = Work(
        completions=completions,
        generated=completions * length,
        trained=completions * (prompt + length) * passes,
    )
    return training + evaluation_work(preset)


def run_work(preset: Preset) -> Work:
    """Return the work of a run: the base policy is evaluated once, before the first stage."""
    return evaluation_work(preset) + stage_work(preset).times(preset.stages)
