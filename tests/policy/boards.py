"""Instances, rollouts and real chat models for the tests of `policy`."""

from collections.abc import Callable, Sequence

from envgen.mapf.config import BoardsConfig, SizeConfig
from envgen.mapf.problem import Instance
from envgen.mapf.prompts import PromptStyle, answer, prompt
from envgen.mapf.sampler import sample
from policy.chat.contract import Completion, Conversation, Progress, Sampling


def draw_instances(count: int = 12, seed: int = 0) -> list[Instance]:
    """Boards of 3x3 and 4x4, half of them with a wait."""
    sizes = {size: SizeConfig(data_ratio=0.5, hole_ratio=0.25, wait_ratio=0.5) for size in (3, 4)}
    return sample(BoardsConfig(sizes=sizes), count, agents=2, seed=seed)[0]


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

    def __init__(
        self,
        instances: list[Instance],
        style: PromptStyle,
        respond: Callable[[Instance], str] = optimal,
        finish: str = "stop",
    ) -> None:
        self.by_prompt = {prompt(i.problem, style): i for i in instances}
        self.respond, self.finish = respond, finish
        self.samplings: list[Sampling] = []

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        self.samplings.append(sampling)
        found = []
        for (message,) in conversations:
            text = self.respond(self.by_prompt[message.content])
            found.append(
                Completion(
                    text=text,
                    prompt_tokens=len(message.content),
                    completion_tokens=len(text),
                    finish_reason=self.finish,
                )
            )
            if progress:
                progress({len(found) - 1: found[-1]})
        return found
