"""Engineers that are language models: `checkpoint`, the policy just trained, `base`, the start policy, and
`openai`, a model behind any OpenAI-compatible endpoint.

A model answers once. If its answer cannot be read, the conversation goes on with one repair turn: the model
sees its answer without thoughts, and the error, and is asked for the JSON again. If that fails too, the
previous config is kept. A model that may think answers freely; only its repair has to fit the schema.
"""

import time
from datetime import UTC, datetime

from engineer.answer import AnswerError, answer_schema, parse_answer, project
from engineer.context import DesignContext
from engineer.contract import Brief, Engineer, EngineerOptions, proposal_of
from engineer.evidence import check_evidence
from engineer.json_text import thoughts_end, without_thoughts
from engineer.prompt import design_prompt
from engineer.proposal import Attempt, Proposal, shortened
from engineer.spec import EngineerSpec
from envgen.errors import ModelError
from envgen.seeds import seed_integer
from envgen.space import Space
from policy.chat.contract import ChatModel, Completion, Conversation, Message, Sampling, ask, token_sum
from policy.chat.endpoint import Endpoint, check_endpoint, read_key

TURNS = 2
"""The answer and its repair."""
MAX_QUOTED = 2_000
"""Characters of an unreadable answer that its repair turn repeats."""
MAX_REASON = 500
"""Characters of a model's own error that are stored."""


def _propose(context: DesignContext, options: EngineerOptions, brief: Brief) -> Proposal:
    """What the model answers to the design question."""
    assert brief.model is not None  # `design` sees to it
    return ask_model(brief.spec, context, brief.seed, brief.model)


def ask_model(spec: EngineerSpec, context: DesignContext, seed: int, model: ChatModel) -> Proposal:
    """The proposal that a model answers to the design question, repaired once; never raises for a bad
    answer."""
    prompt = design_prompt(context, spec.context, spec.gate)
    proposal = proposal_of(spec, context, context.current.config, prompt=prompt)
    conversation = ask(prompt)
    for turn in range(TURNS):
        started, clock = datetime.now(UTC), time.monotonic()
        try:
            [completion] = model.complete([conversation], _sampling(spec, context, seed, turn))
        except ModelError as error:
            why = f"{str(error)[:MAX_REASON]}{_unread(proposal)}"
            reason = f"the model could not answer, the previous config is kept: {why}"
            return proposal.model_copy(update={"fallback": reason})
        seconds = round(time.monotonic() - clock, 3)
        read, error = _read(completion, context, spec)
        fields = {**completion.model_dump(), "reasoning_tokens": _reasoning_tokens(completion)}
        attempt = Attempt(**fields, error=error, started=started, seconds=seconds)
        attempts = (*proposal.attempts, attempt)
        tokens = {
            "prompt_tokens": token_sum(attempt.prompt_tokens for attempt in attempts),
            "completion_tokens": token_sum(attempt.completion_tokens for attempt in attempts),
        }
        proposal = proposal.model_copy(update={**read, "attempts": attempts, **tokens})
        if error is None:
            return proposal
        conversation = _repair(conversation, without_thoughts(completion.text), error)
    reason = f"the model could not repair its answer, the previous config is kept{_unread(proposal)}"
    return proposal.model_copy(update={"fallback": reason})


def _reasoning_tokens(completion: Completion) -> int | None:
    """Return the tokens of thoughts, by their share of the characters if the server did not count them."""
    if completion.reasoning_tokens is not None or completion.completion_tokens is None:
        return completion.reasoning_tokens
    characters = len(completion.reasoning) + len(completion.text)
    thoughts = len(completion.reasoning) + thoughts_end(completion.text)
    return round(completion.completion_tokens * thoughts / max(characters, 1))


def _sampling(spec: EngineerSpec, context: DesignContext, seed: int, turn: int) -> Sampling:
    under_schema = spec.schema_decoding and (turn > 0 or not spec.thinking)
    return Sampling(
        max_tokens=spec.max_tokens,
        temperature=spec.temperature,
        seed=seed_integer(seed, context.current.stage, "design", turn),
        json_schema=answer_schema(context.space) if under_schema else None,
    )


def _read(completion: Completion, context: DesignContext, spec: EngineerSpec) -> tuple[dict, str | None]:
    """The fields of a proposal that an answer decides, and why it could not be read, if it could not."""
    try:
        thought = completion.reasoning or thoughts_end(completion.text)
        if spec.thinking and completion.finish_reason == "length" and not thought:
            raise AnswerError("the answer ends before its thoughts do")  # what it holds may be a draft
        rationale, raw = parse_answer(completion.text, context.space)
        config, changes = project(raw, context.space, context.current.config)
    except AnswerError as error:
        cut = f"; it was cut off at {spec.max_tokens} tokens" if completion.finish_reason == "length" else ""
        return {}, f"{error}{cut}"
    evidence = check_evidence(raw.get("evidence"), context)
    fields = {"rationale": rationale, "evidence": evidence, "proposed": raw, "changes": changes}
    return {**fields, "config": config}, None


def _unread(proposal: Proposal) -> str:
    return "".join(
        f"; answer {number} could not be read: {attempt.error}"
        for number, attempt in enumerate(proposal.attempts, 1)
    )


def _repair(conversation: Conversation, answer: str, error: str) -> Conversation:
    # Some chat models refuse an empty message.
    quoted = shortened(answer, MAX_QUOTED) if answer.strip() else "(nothing)"
    wanted = "Answer again with the JSON only, in the form that was asked for."
    request = f"Your answer could not be used: {error}. {wanted}"
    return (*conversation, Message(role="assistant", content=quoted), Message(role="user", content=request))


class OpenAIOptions(Endpoint, EngineerOptions):
    """The endpoint, as described in `policy.chat.endpoint`."""


def _check_options(options: OpenAIOptions, space: Space, stages: int) -> None:
    """ValueError if the endpoint is none."""
    check_endpoint(options)


def _propose_openai(context: DesignContext, options: OpenAIOptions, brief: Brief) -> Proposal:
    """What a model behind any OpenAI-compatible endpoint answers to the design question."""
    from policy.chat.openai_model import OpenAIModel  # the client library takes two seconds to import

    model = OpenAIModel(options, read_key(options))
    proposal = ask_model(brief.spec, context, brief.seed, model)
    return proposal.model_copy(update={"requests": model.requests})


CHECKPOINT = Engineer(_propose, asks="checkpoint")
BASE = Engineer(_propose, asks="base")
OPENAI = Engineer(_propose_openai, OpenAIOptions, reads_context=True, check=_check_options)
