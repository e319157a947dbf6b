"""The designers that are models: `checkpoint`, the policy just trained, and `base`, the start policy."""

from engineer.answer import AnswerError, answer_schema, parse_answer, project
from engineer.context import DesignContext, design_prompt
from engineer.contract import Brief, Designer, DesignerOptions
from engineer.proposal import Attempt, Proposal
from engineer.spec import DesignSpec
from envgen.errors import ModelError
from envgen.seeds import seed_integer
from policy.chat import ChatModel, Completion, Sampling, ask


def _propose(context: DesignContext, options: DesignerOptions, brief: Brief) -> Proposal:
    assert brief.model is not None  # `design` sees to it
    return ask_model(brief.spec, context, brief.seed, brief.model, brief.candidate)


def ask_model(spec: DesignSpec, context: DesignContext, seed: int, model: ChatModel, candidate: int = 0) -> Proposal:
    """The proposal that a chat model answers with."""
    question = design_prompt(spec.variant, context)
    attempts: list[Attempt] = []
    completions: list[Completion] = []
    for attempt in range(spec.retries + 1):
        sampling = Sampling(
            max_tokens=spec.max_tokens,
            temperature=spec.temperature if attempt == candidate == 0 else 1.0,
            seed=seed_integer(seed, context.current.stage, "design", attempt, candidate),
            json_schema=answer_schema(context.space) if spec.schema_decoding else None,
        )
        try:
            [completion] = model.complete([ask(question)], sampling)
        except ModelError as error:
            reason = f"the model could not answer, the previous config is kept: {error}"
            return _from_model(spec, context, question, attempts, completions).model_copy(update={"fallback": reason})
        completions.append(completion)
        try:
            rationale, raw = parse_answer(completion.text)
            config, changes = project(raw, context.space, context.current.config)
        except AnswerError as error:
            attempts.append(Attempt(text=completion.text, finish_reason=completion.finish_reason, error=str(error)))
            continue
        attempts.append(Attempt(text=completion.text, finish_reason=completion.finish_reason))
        return _from_model(spec, context, question, attempts, completions).model_copy(
            update={"rationale": rationale, "proposed": raw, "config": config, "changes": changes}
        )
    reason = f"none of {len(attempts)} answers could be read, the previous config is kept; the last one: {attempts[-1].error}"
    return _from_model(spec, context, question, attempts, completions).model_copy(update={"fallback": reason})


def _from_model(spec: DesignSpec, context: DesignContext, question: str, attempts: list[Attempt], completions: list[Completion]) -> Proposal:
    return Proposal(
        stage=context.current.stage,
        designer=spec.designer,
        variant=spec.variant,
        prompt=question,
        attempts=tuple(attempts),
        config=context.current.config,
        prompt_tokens=sum(c.prompt_tokens for c in completions),
        completion_tokens=sum(c.completion_tokens for c in completions),
    )


CHECKPOINT = Designer(_propose, asks="checkpoint")
BASE = Designer(_propose, asks="base")
