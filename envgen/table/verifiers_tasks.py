"""Tasks of the library verifiers 0.4, in a child process whose interpreter has it."""

import asyncio
import hashlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envgen.errors import describe_validation_error

PAGE = 500
"""Rows of one reply."""
MESSAGES, ENTRY = "(messages)", "(entry)"
"""Keys of a row beside its columns."""
_HOOKS = "verifiers.v1.utils.decorators"


class Tasks:
    """Tasks of an environment that `load_environment` of verifiers makes of a taskset. ValueError if they
    need more than one answer that is scored alone, or their code is not `sha256`."""

    def __init__(self, source: str, config: dict[str, Any], limit: int | None, sha256: str | None) -> None:
        self.verifiers, path = import_module("verifiers.v1"), Path(source)
        name = path.stem if path.is_absolute() else source
        if path.is_absolute():
            sys.path.insert(0, str(path.parent))
        self._sha256 = _digest(self.verifiers.import_taskset(name))
        if sha256 and self._sha256 != sha256:
            raise ValueError("its code changed since the run began; put it back, or begin another run")
        try:
            chosen = self.verifiers.resolve_env_config({"taskset": {**config, "id": name}})
        except ValidationError as error:
            lines = describe_validation_error(error, "environment.options.config").splitlines()
            raise ValueError("; ".join(lines)) from None
        self.environment = self.verifiers.load_environment(chosen)
        taskset = self.environment.taskset
        taskset = taskset if limit is None else taskset.take(limit)
        if not taskset.bounded:
            raise ValueError("its tasks have no end; set environment.options.limit")
        self.tasks = list(taskset)
        for number, task in enumerate(self.tasks):
            if obstacle := self._obstacle(task):
                expected = "expected one question and one answer, scored by its text alone"
                raise ValueError(f"task {number} needs {obstacle}; {expected}")

    def describe(self) -> dict[str, Any]:
        """Return the digest of the code, and the columns of the tasks."""
        columns = list(type(self.tasks[0].data).model_fields) if self.tasks else []
        return {"sha256": self._sha256, "columns": columns, "rows": len(self.tasks)}

    def rows(self, start: int, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return `PAGE` tasks from a place on: columns, messages, and what `score` needs."""
        return [
            {
                **task.data.model_dump(mode="json", include=set(columns)),
                MESSAGES: [message.model_dump(mode="json") for message in self._messages(task)],
                ENTRY: {"row": number, "digest": task.hash},
            }
            for number, task in enumerate(self.tasks[start : start + PAGE], start=start)
        ]

    def score(self, entry: Mapping[str, Any], answer: str) -> float:
        """Return the sum of the weighted rewards of an answer; ValueError if the task is another one now."""
        task = self.tasks[entry["row"]] if entry["row"] < len(self.tasks) else None
        if task is None or task.hash != entry["digest"]:
            raise ValueError("the tasks changed since the run began; put them back, or begin another run")
        trace = self._trace(task, answer)
        trace.stop("agent_completed")
        asyncio.run(task.score(trace))
        return trace.reward

    def _trace(self, task: Any, answer: str) -> Any:
        """Return the conversation of a task with one answer."""
        vf, state = self.verifiers, import_module("verifiers.v1.state").state_cls(type(task))
        said = [*self._messages(task), vf.AssistantMessage(content=answer)]
        place = {"type": type(task).__name__, "data": task.data, "key": task.key, "hash": task.hash}
        nodes = [
            vf.MessageNode(message=message, parent=number - 1 if number else None)
            for number, message in enumerate(said)
        ]
        nodes[-1].sampled = True
        agent = vf.AgentInfo(config=vf.AgentConfig())
        return vf.Trace(task=vf.TraceTask(**place), agent=agent, state=state(), nodes=nodes, ok=True)

    def _goes_on(self, task: Any) -> bool:
        """Return whether a condition to stop lets the conversation go on after one answer."""
        session, kind = import_module("verifiers.v1.session"), self.verifiers.Trace
        return any(
            session.hook_boundary(stop, allow_trace=True) is not kind
            or not asyncio.run(session.call_hook(stop, {kind: self._trace(task, "")}))
            for stop in task.hooks("stop")
        )

    def _messages(self, task: Any) -> list[Any]:
        """Return the messages before the answer."""
        vf, data = self.verifiers, task.data
        system = [vf.SystemMessage(content=data.system_prompt)] if data.system_prompt else []
        prompt = [vf.UserMessage(content=data.prompt)] if isinstance(data.prompt, str) else data.prompt or []
        return [*system, *prompt]

    def _obstacle(self, task: Any) -> str | None:
        """Return what a task needs beside one question and one answer; None if there is nothing."""
        vf, data, kind, taskset = self.verifiers, task.data, type(task), self.environment.taskset
        rewards, name = task.hooks("reward"), taskset.config.id
        scorers = [*rewards, *task.hooks("metric"), kind.setup, kind.finalize]
        plain = (vf.Task.setup, vf.Task.finalize)
        live = [f for f in scorers if f not in plain and "runtime" in inspect.signature(f).parameters]
        hooks = import_module(_HOOKS).discover_decorated(task, "intercept")
        turns = hooks or self._goes_on(task)
        roles = [message.role for message in self._messages(task)]
        obstacles = {
            "several agents": type(self.environment) is not vf.SingleAgentEnv,
            "a harness": vf.default_harness_id(name) == name,
            "tools": taskset.toolsets(taskset.config) or task.toolsets(task.config) or data.skills,
            "a container": kind.NEEDS_CONTAINER or data.image or data.workdir or data.artifacts,
            "several turns": turns or roles not in (["user"], ["system", "user"]),
            "a running program": live or kind.setup is not plain[0] or kind.finalize is not plain[1],
            "a model as judge": task.config.judges,
            "a reward, which it lacks": not rewards,
        }
        return next((obstacle for obstacle, needed in obstacles.items() if needed), None)


def _digest(module: Any) -> str:
    """Return the digest of a module or package, and of the version of verifiers."""
    file = Path(module.__file__)
    files = sorted(file.parent.rglob("*.py")) if file.name == "__init__.py" else [file]
    version = import_module("verifiers").__version__.encode()
    return hashlib.sha256(b"".join([version, *(path.read_bytes() for path in files)])).hexdigest()
