"""A chat model in child processes: the caller never imports torch, and closing it frees its memory."""

import logging
import sys
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from pathlib import Path

from envgen.errors import ModelError
from policy.chat.contract import Completion, Conversation, Progress, Sampling, equal_groups
from policy.chat.engine_config import EngineConfig
from policy.chat.replica import EndedError, Replica, Reply, Request, vllm_python
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
            return Request(conversations={i: conversations[i] for i in indices}, sampling=sampling)

        def take(reply: Reply) -> None:
            new = {index: completion for index, completion in reply.completions.items() if index not in found}
            found.update(new)
            if progress and new:
                progress(new)

        lengths = [sum(len(message.content) for message in conversation) for conversation in conversations]
        groups = sorted(equal_groups(conversations), key=lambda group: -lengths[group[0]])
        _Call(self, groups, request, take).run()
        return [found[index] for index in range(len(conversations))]

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """As `LocalModel.score`; ModelError also as in `complete`."""
        found: dict[int, list[float]] = {}

        def request(indices: Group) -> Request:
            return Request(sequences={i: list(sequences[i]) for i in indices})

        order = sorted(range(len(sequences)), key=lambda index: -len(sequences[index]))
        _Call(self, [[index] for index in order], request, lambda reply: found.update(reply.scores)).run()
        return [found[index] for index in range(len(sequences))]

    def close(self) -> None:
        """End the processes."""
        for replica in self.replicas:
            replica.close()


class _Call:
    """One call: its groups are handed out in order, to several replicas a few at a time, so that all have
    work until the end."""

    def __init__(
        self,
        engine: EngineChatModel,
        groups: Sequence[Group],
        request: Callable[[Group], Request],
        take: Callable[[Reply], None],
    ) -> None:
        self.engine, self.request, self.take = engine, request, take
        self.waiting = deque(groups)
        self.window = 2 * engine.config.batch_size if len(engine.replicas) > 1 else sys.maxsize
        """A replica is asked for more while it owes fewer."""
        self.ended: set[Replica] = set()
        self.refusal: str | None = None
        self.last_words = ""

    def run(self) -> None:
        """Work until nothing waits and nothing is owed; ModelError."""
        replicas = self.engine.replicas
        try:
            while self.waiting or any(replica.owed for replica in replicas):
                for replica in replicas:
                    self.hand_out(replica)
                for replica in _ready([replica for replica in replicas if replica.owed]):
                    self.hear(replica)
        finally:
            for replica in replicas:
                if replica.owed:  # what it goes on to say belongs to no later call
                    replica.close()
        if self.refusal is not None:
            raise ModelError(self.refusal)

    def hand_out(self, replica: Replica) -> None:
        """Ask a replica for more, if it has too little to do."""
        indices = []
        while self.waiting and len(replica.owed) < self.window:
            group = self.waiting.popleft()
            replica.owed |= dict.fromkeys(group, group)
            indices += group
        try:
            if indices:
                replica.send(self.request(indices))
        except EndedError:
            self.start_again(replica)

    def hear(self, replica: Replica) -> None:
        """Take what a replica says."""
        try:
            replies = replica.receive()
        except EndedError:
            self.start_again(replica)
            return
        for reply in replies:
            self.take(reply)
            if reply.error is not None:
                self.refuse(reply.error)
            if reply.last_words is not None:
                self.last_words = f": {reply.last_words}"
                if _lacks_memory(reply.last_words):  # it would end so again
                    self.refuse(f"{self.engine.source}{self.last_words}")
                    replica.owed = {}
            for index in (*reply.completions, *reply.scores, *reply.refused):
                del replica.owed[index]

    def refuse(self, reason: str) -> None:
        """Ask for nothing more; what is under way is awaited, as its answers are paid for."""
        advice = self.engine.config.less_memory
        if _lacks_memory(reason) and advice not in reason:
            reason = f"{reason}; {advice}. Its output is in {self.engine.log_path}"
        self.refusal = self.refusal or reason
        self.waiting.clear()

    def start_again(self, replica: Replica) -> None:
        """Let another process of an ended replica be asked for what it owes; ModelError the second time."""
        ended = f"{self.engine.source}: the process that runs the model {replica.end}"
        log_path = self.engine.log_path
        if replica in self.ended:
            raise ModelError(
                f"{ended}, twice{self.last_words}; its output is in {log_path}; if it was killed for its "
                f"memory, {self.engine.config.less_memory}"
            ) from None
        self.ended.add(replica)
        # Whole groups: which answers are sampled depends on the rank in one.
        self.waiting.extendleft({group[0]: group for group in replica.owed.values()}.values())
        replica.close()
        _log.warning("%s and is started again; its output is in %s", ended, log_path)


def _lacks_memory(reason: str) -> bool:
    return is_out_of_memory(RuntimeError(reason))


def _ready(replicas: list[Replica]) -> list[Replica]:
    """The replicas that have said something, after waiting for one that does."""
    speaking = set(wait([replica.fileno() for replica in replicas])) if replicas else set()
    return [replica for replica in replicas if replica.fileno() in speaking]
