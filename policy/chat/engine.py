"""A chat model in child processes: the caller never imports torch, and closing it frees its memory."""

import logging
import selectors
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from envgen.errors import ModelError
from policy.chat.contract import Completion, Conversation, Progress, Sampling, equal_groups
from policy.chat.engine_config import EngineConfig
from policy.chat.interpreter import vllm_python
from policy.chat.replica import EndedError, Replica, Reply, Request
from policy.grpo.out_of_memory import is_out_of_memory

_log = logging.getLogger("envwright.engine")

Group = list[int]
"""Indices that one replica answers together."""


class EngineChatModel:
    """A `ChatModel` whose model lives in `config.replicas` child processes.

    The first call starts them; reusable, closed explicitly.
    """

    def __init__(self, source: str, config: EngineConfig, log_path: Path, vllm: Path | None = None) -> None:
        """`vllm` names the interpreter of the backend vllm; ModelError if there is none."""
        self.source, self.config, self.log_path = source, config, log_path
        python = vllm_python(vllm) if config.backend == "vllm" else sys.executable
        self.replicas = [
            Replica(number, source, config, log_path, python) for number in range(config.replicas)
        ]

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        """Complete every conversation in order.

        A process that is killed is started again, once, and asked for what it owes; ModelError if it fails
        for another reason, or again.
        """
        found: dict[int, Completion] = {}

        def request(indices: Group) -> Request:
            return Request(
                conversations={index: conversations[index] for index in indices}, sampling=sampling
            )

        def take(reply: Reply) -> None:
            new = {index: completion for index, completion in reply.completions.items() if index not in found}
            found.update(new)
            if progress and new:
                progress(new)

        lengths = [sum(len(message.content) for message in conversation) for conversation in conversations]
        self._share(sorted(equal_groups(conversations), key=lambda group: -lengths[group[0]]), request, take)
        return [found[index] for index in range(len(conversations))]

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """For each sequence of n >= 1 token ids the n - 1 log-probabilities of its tokens after the first.

        They are log p(token_t | tokens before t), t >= 1, at temperature 1. Raises ModelError as `complete`
        does, and if a sequence is empty or too long for the model.
        """
        found: dict[int, list[float]] = {}

        def request(indices: Group) -> Request:
            return Request(sequences={index: list(sequences[index]) for index in indices})

        order = sorted(range(len(sequences)), key=lambda index: -len(sequences[index]))
        self._share([[index] for index in order], request, lambda reply: found.update(reply.scores))
        return [found[index] for index in range(len(sequences))]

    def _share(
        self, groups: Sequence[Group], request: Callable[[Group], Request], take: Callable[[Reply], None]
    ) -> None:
        """Hand out the groups, the longest first.

        With several replicas it hands out a few at a time, so that all have work until the end.
        """
        work = _Work(
            deque(groups),
            {replica: {} for replica in self.replicas},
            2 * self.config.batch_size if len(self.replicas) > 1 else sys.maxsize,
        )
        ended: set[Replica] = set()
        refusal: str | None = None
        last_words = ""

        def again(replica: Replica) -> None:
            if replica in ended:
                said = (
                    f"{self.source}: the process that runs the model ended unexpectedly, twice{last_words}; "
                    f"its output is in {self.log_path}"
                )
                raise ModelError(
                    f"{said}; if it was killed for its memory, {self.config.less_memory}"
                ) from None
            ended.add(replica)
            work.give_back(replica)
            _log.warning(
                "%s: the process that runs the model ended unexpectedly and is started again; its output is "
                "in %s",
                self.source,
                self.log_path,
            )

        try:
            while work.left():
                for replica in self.replicas:
                    if (indices := work.hand_out(replica)) and not _sent(replica, request(indices)):
                        again(replica)
                for replica in _ready([replica for replica in self.replicas if work.owed[replica]]):
                    try:
                        replies = replica.receive()
                    except EndedError:
                        again(replica)
                        continue
                    for reply in replies:
                        take(reply)
                        if reply.error is not None:
                            # What is under way is awaited: its answers are paid for.
                            refusal = refusal or self._explained(reply.error)
                            work.waiting.clear()
                        if reply.last_words is not None:
                            last_words = f": {reply.last_words}"
                            if _lacks_memory(reply.last_words):  # it would end so again
                                refusal = refusal or self._explained(f"{self.source}{last_words}")
                                work.waiting.clear()
                                work.owed[replica] = {}
                        work.settle(replica, [*reply.completions, *reply.scores, *reply.refused])
        finally:
            for replica in self.replicas:
                if work.owed[replica]:  # what it goes on to say belongs to no later call
                    replica.close()
        if refusal is not None:
            raise ModelError(refusal)

    def _explained(self, reason: str) -> str:
        """A reason, with the remedy if memory ran out; finished answers are the caller's already."""
        advice = self.config.less_memory
        return (
            f"{reason}; {advice}. Its output is in {self.log_path}"
            if _lacks_memory(reason) and advice not in reason
            else reason
        )

    def close(self) -> None:
        """End the processes."""
        for replica in self.replicas:
            replica.close()


class _Work:
    """Which groups wait, and which a replica owes."""

    def __init__(self, waiting: deque[Group], owed: dict[Replica, dict[int, Group]], window: int) -> None:
        """`owed` holds for each replica the indices that it was asked for, with their groups.

        A replica is asked for more while fewer than `window` are owed.
        """
        self.waiting, self.owed, self.window = waiting, owed, window

    def left(self) -> bool:
        """Whether anything is to be done."""
        return bool(self.waiting) or any(self.owed.values())

    def hand_out(self, replica: Replica) -> Group:
        """The indices that a replica is to be asked next; none if it has enough."""
        indices = []
        while self.waiting and len(self.owed[replica]) < self.window:
            group = self.waiting.popleft()
            self.owed[replica] |= dict.fromkeys(group, group)
            indices += group
        return indices

    def settle(self, replica: Replica, done: list[int]) -> None:
        """Strike out what is done."""
        for index in done:
            del self.owed[replica][index]

    def give_back(self, replica: Replica) -> None:
        """Let a replica's groups wait again, whole: which answers are sampled depends on the rank in one."""
        self.waiting.extendleft({group[0]: group for group in self.owed[replica].values()}.values())
        self.owed[replica] = {}


def _lacks_memory(reason: str) -> bool:
    return is_out_of_memory(RuntimeError(reason))


def _sent(replica: Replica, request: Request) -> bool:
    try:
        replica.send(request)
    except EndedError:
        return False
    return True


def _ready(replicas: list[Replica]) -> list[Replica]:
    """The replicas that have said something, after waiting for one that does."""
    with selectors.DefaultSelector() as selector:
        for replica in replicas:
            selector.register(replica, selectors.EVENT_READ)
        speaking = {key.fd for key, _ in selector.select()} if replicas else set()
    return [replica for replica in replicas if replica.fileno() in speaking]
