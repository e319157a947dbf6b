"""Instances, rollouts, a chat model that solves, and small stages of training, for the tests of `policy`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.boards import boards_config, sample_boards

from envgen.dataset import write_dataset
from envgen.mapf.problem import Instance
from envgen.mapf.prompts import PromptStyle, answer, prompt
from envgen.mapf.verifier import verify
from policy.chat.contract import Completion, Conversation, Progress, Sampling, ask
from policy.checkpoints import resolve_model
from policy.grpo.rewards import RewardWeights
from policy.grpo.train_spec import TrainingSettings, TrainSpec
from policy.rollouts import Rollout

QUESTIONS = [ask("Solve 3x3."), ask("Solve 3x3.\nHoles: (0,1) (1,1)"), ask("a")]
QUESTIONS += [ask("Agent 0: (0,0) to (2,2)\nAgent 1: (1,0) to (0,2)")]


def draw_instances(count: int = 12, seed: int = 0) -> list[Instance]:
    """Boards of 3x3 and 4x4, half of them with a wait."""
    return sample_boards(boards_config({3: (0.5, 0.25, 0.5), 4: (0.5, 0.25, 0.5)}), count, seed=seed)


def optimal(instance: Instance) -> str:
    return answer(instance.solution.plan)


def detour(instance: Instance) -> str:
    """A valid answer that costs more than the optimum: everybody stays at the start for a step."""
    return answer(tuple((path[0], *path) for path in instance.solution.plan))


def off_the_grid(instance: Instance) -> str:
    return answer(tuple((*path, (instance.problem.size, 0)) for path in instance.solution.plan))


def unfinished(instance: Instance) -> str:
    return answer(tuple(path[:1] for path in instance.solution.plan))


class Solver:
    """A chat model that knows the boards: it answers each prompt as `respond` says, and remembers what it was
    asked."""

    def __init__(self, instances: list[Instance], style: PromptStyle, respond=optimal, finish: str = "stop"):
        self.by_prompt = {prompt(i.problem, style): i for i in instances}
        self.respond, self.finish = respond, finish
        self.samplings: list[Sampling] = []

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        self.samplings.append(sampling)
        completions = []
        for index, (message,) in enumerate(conversations):
            text = self.respond(self.by_prompt[message.content])
            tokens = {"prompt_tokens": len(message.content), "completion_tokens": len(text)}
            completions.append(Completion(text=text, finish_reason=self.finish, **tokens))
            if progress:
                progress({index: completions[-1]})
        return completions


def rollout(instance: Instance, completion: str, truncated: bool = False) -> Rollout:
    how = {"completion": completion, "completion_tokens": len(completion), "truncated": truncated}
    return Rollout(instance=instance, verdict=verify(instance, completion), **how)


def train_spec(
    folder: Path,
    instances: list[Instance],
    training: TrainingSettings = TrainingSettings(),  # noqa: B008  # frozen
    **options: Any,
) -> TrainSpec:
    """A stage of a few steps on these boards from the shipped base policy, with its data written."""
    if not (folder / "train.parquet").exists():
        write_dataset(folder / "train.parquet", instances, PromptStyle.COMPACT, {})
    plain = {"per_device_train_batch_size": 16, "num_generations": 4, "max_completion_length": 32}
    plain |= {"num_train_epochs": 1, "bf16": False, "gradient_checkpointing": False}
    places = {"data": folder / "train.parquet", "output": folder, "work": folder / "work"}
    fields = {"parent": resolve_model("tiny"), "style": PromptStyle.COMPACT, "rewards": RewardWeights()}
    fields |= {"trl": plain | options, "seed": 3, "training": training}
    return TrainSpec.model_validate(places | fields)
