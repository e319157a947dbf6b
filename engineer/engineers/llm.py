"""Engineers that are language models. A model answers once. If its answer cannot be read, there is one repair
turn: it sees its answer without thoughts, and the error, and is asked for the JSON again. If that fails too,
the previous config is kept. A model that may think answers freely; only its repair has to fit the schema.
"""

import time
from datetime import UTC, datetime
from typing import Any

from engineer.answer import AnswerError, answer_schema, parse_answer, project
from engineer.context import DesignContext
from engineer.contract import Attempt, Brief, Engineer, Evidence, Proposal, shortened
from engineer.json_text import number_of, thoughts_end, without_thoughts
from engineer.prompt import design_prompt
from engineer.spec import EngineerSpec
from envgen.config import SHARE
from envgen.errors import ModelError
from envgen.seeds import seed_integer
from envgen.space import Space
from policy.chat.contract import ChatModel, Completion, Message, Sampling, ask, token_sum
from policy.chat.endpoint import Endpoint, check_endpoint, read_key

MAX_QUOTED = 2_000
"""Characters of an unreadable answer that its repair turn repeats."""
ROUNDING = 0.0051
"""Prompts show shares in whole percent, and knobs with two digits."""


class _Model(Engineer):
    reads_context = True

    def propose(self, context: DesignContext, brief: Brief) -> Proposal:
        """Return the model's answer to the design question, repaired once; no error for a bad answer."""
        assert brief.model is not None  # `design` sees to it
        spec, space = brief.spec, context.space
        prompt = design_prompt(context, spec.context, spec.gate)
        conversation, attempts, read = ask(prompt), list[Attempt](), dict[str, Any]()
        why = "the model could not repair its answer, the previous config is kept"
        for turn in range(2):  # the answer and its repair
            started, clock = datetime.now(UTC), time.monotonic()
            seed = seed_integer(brief.seed, context.current.stage, "design", turn)
            try:
                [completion] = brief.model.complete([conversation], sampling(spec, space, turn, seed))
            except ModelError as error:
                why = f"the model could not answer, the previous config is kept: {str(error)[:500]}"
                break
            seconds = round(time.monotonic() - clock, 3)
            read, error = _read(completion, context, spec)
            fields = {**completion.model_dump(), "reasoning_tokens": _reasoning_tokens(completion)}
            attempts.append(Attempt(**fields, error=error, started=started, seconds=seconds))
            if error is None:
                break
            conversation = (*conversation, *_repair(without_thoughts(completion.text), error))
        for number, attempt in enumerate(attempts, 1):
            why += f"; answer {number} could not be read: {attempt.error}"
        return Proposal(
            prompt=prompt,
            attempts=tuple(attempts),
            prompt_tokens=token_sum(attempt.prompt_tokens for attempt in attempts),
            completion_tokens=token_sum(attempt.completion_tokens for attempt in attempts),
            **(read or {"config": context.current.config, "fallback": why}),
        )


class Checkpoint(_Model):
    """What the policy just trained answers to the design question."""

    asks = "checkpoint"


class Base(_Model):
    """What the base policy answers to the design question."""

    asks = "base"


class OpenAI(Endpoint, _Model):
    """What a model behind any OpenAI-compatible endpoint answers to the design question."""

    def check_fit(self, space: Space, stages: int) -> None:
        """Raise ValueError if the endpoint is none."""
        check_endpoint(self)

    def client(self) -> ChatModel:
        """Return the model at the endpoint; ModelError if its key cannot be one."""
        from policy.chat.openai_model import OpenAIModel  # the client library takes two seconds to import

        return OpenAIModel(self, read_key(self))

    def propose(self, context: DesignContext, brief: Brief) -> Proposal:
        """Return what the model answers."""
        return super().propose(context, brief._replace(model=self.client()))


def sampling(spec: EngineerSpec, space: Space, turn: int = 0, seed: int = 0) -> Sampling:
    """Return how an answer of a turn is drawn: under the schema, unless it may begin with thoughts."""
    under_schema = spec.schema_decoding and (turn > 0 or not spec.thinking)
    schema = answer_schema(space) if under_schema else None
    return Sampling(max_tokens=spec.max_tokens, temperature=spec.temperature, seed=seed, json_schema=schema)


def _read(completion: Completion, context: DesignContext, spec: EngineerSpec) -> tuple[dict, str | None]:
    """Return the fields of a proposal that an answer decides; none, and why, if it could not be read."""
    cut = completion.finish_reason == "length"
    try:
        if spec.thinking and cut and not (completion.reasoning or thoughts_end(completion.text)):
            raise AnswerError("the answer ends before its thoughts do")  # what it holds may be a draft
        rationale, raw = parse_answer(completion.text, context.space)
        config, changes = project(raw, context.space, context.current.config)
    except AnswerError as error:
        return {}, f"{error}; it was cut off at {spec.max_tokens} tokens" if cut else str(error)
    evidence = _checked_evidence(raw.get("evidence", []), context)
    fields = {"rationale": rationale, "evidence": evidence, "proposed": raw, "changes": changes}
    return {**fields, "config": config}, None


def _reasoning_tokens(completion: Completion) -> int | None:
    """Return the tokens of thoughts, by their share of the characters if the server did not count them."""
    if completion.reasoning_tokens is not None or completion.completion_tokens is None:
        return completion.reasoning_tokens
    characters = len(completion.reasoning) + len(completion.text)
    thoughts = len(completion.reasoning) + thoughts_end(completion.text)
    return round(completion.completion_tokens * thoughts / max(characters, 1))


def _repair(answer: str, error: str) -> tuple[Message, Message]:
    """Return an unreadable answer and the request for another one."""
    # Some chat models refuse an empty message.
    quoted = shortened(answer, MAX_QUOTED) if answer.strip() else "(nothing)"
    wanted = "Answer again with the JSON only, in the form that was asked for."
    [request] = ask(f"Your answer could not be used: {error}. {wanted}")
    return Message(role="assistant", content=quoted), request


def _checked_evidence(raw: list[Any], context: DesignContext) -> tuple[Evidence, ...]:
    """Return at most 20 items of `[{"stratum": ..., "metric": ..., "value": ...}]` with the true numbers."""
    checked = []
    for item in [item for item in raw if isinstance(item, dict)][:20]:
        stratum, metric = (str(item.get(field, ""))[:100] for field in ("stratum", "metric"))
        value, numbers = number_of(item.get("value")), _numbers(context, stratum)
        true = numbers.get(metric.strip().lower().replace(" ", "_").removesuffix("_rate"))
        # A rate is a share, a percentage or a count of answers.
        near = [] if true is None else [(true, 1), (100 * true, 100), (true * numbers.get("n", 1), 1)]
        agrees = value is not None and any(abs(value - number) <= ROUNDING * by for number, by in near)
        checked.append(Evidence(stratum=stratum, metric=metric, value=value, true=true, agrees=agrees))
    return tuple(checked)


def _numbers(context: DesignContext, label: str) -> dict[str, float]:
    """Return the numbers that prompts show of a stratum, by their names there; counts as shares."""
    names, record = {stratum.label: stratum.name for stratum in context.space.strata}, context.current
    name, numbers = names.get(label, label), dict[str, float]()
    if config := record.config.strata.get(name):
        numbers |= {SHARE: config[SHARE], **config.knobs}
    if change := record.change.get(name):
        numbers["change"] = change.value
    if (part := record.breakdown.strata.get(name)) and part.n:
        counts = {"valid": part.valid, context.space.best or "optimal": part.optimal, **part.failures}
        counts["truncated"] = part.truncated or 0
        numbers |= part.measures | {key: count / part.n for key, count in counts.items()} | {"n": part.n}
    return {key.removesuffix("_rate"): number for key, number in numbers.items()}
