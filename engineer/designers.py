"""Designers: who proposes the next environment config. One contract: a `DesignContext` in, a `Proposal` out."""

from collections.abc import Callable

import numpy as np

from engineer.answer import AnswerError, answer_schema, parse_answer, project
from engineer.context import DesignContext, design_prompt
from engineer.proposal import Attempt, Proposal
from engineer.spec import DesignSpec
from envgen.config import EnvConfig
from envgen.errors import ModelError, SamplingError
from envgen.seeds import generator, seed_integer
from policy.chat import ChatModel, Completion, Sampling, ask

Fit = Callable[[EnvConfig], tuple[EnvConfig, list[str]]]
"""The nearest config of which the generator can draw a data set, and what had to be changed; raises SamplingError."""


def design(spec: DesignSpec, context: DesignContext, seed: int, model: ChatModel | None, fit: Fit) -> Proposal:
    """The proposal of the configured designer; `model` answers for the designers that are models.

    Never raises for a bad answer: after the retries, or if nothing near the answer can be drawn, the previous config
    is kept and the reason recorded.
    """
    proposal = _propose(spec, context, seed, model)
    if proposal.fallback is not None or proposal.config == context.current.config:
        return proposal
    try:
        config, notes = fit(proposal.config)
    except SamplingError as error:
        return proposal.model_copy(update={"config": context.current.config, "fallback": f"no data set can be drawn, the previous config is kept: {error}"})
    return proposal.model_copy(update={"config": config, "changes": (*proposal.changes, *notes)})


def _propose(spec: DesignSpec, context: DesignContext, seed: int, model: ChatModel | None) -> Proposal:
    match spec.designer:
        case "checkpoint" | "base":
            assert model is not None, f"designer {spec.designer} needs a chat model"
            return _ask_model(spec, context, seed, model)
        case "random":
            config = random_config(context, generator(seed, context.current.stage, "random-designer"))
            return _plain(spec, context, config, "Drawn at random from the config space.")
        case "fixed":
            return _plain(spec, context, context.current.config, "The config is fixed.")


def random_config(context: DesignContext, rng: np.random.Generator) -> EnvConfig:
    """A config uniform over shares (flat Dirichlet), hole and wait ratios of the space."""
    space = context.space
    shares = rng.dirichlet(np.ones(len(space.map_sizes)))
    raw = {
        str(size): {
            "data_ratio": float(share),
            "hole_ratio": float(rng.uniform(space.min_hole_ratio, space.max_hole_ratio)),
            "wait_ratio": float(rng.uniform()),
        }
        for size, share in zip(space.map_sizes, shares, strict=True)
    }
    return project({"sizes": raw}, space, context.current.config)[0]


def _plain(spec: DesignSpec, context: DesignContext, config: EnvConfig, rationale: str) -> Proposal:
    return Proposal(
        stage=context.current.stage, designer=spec.designer, variant=spec.variant, rationale=rationale, proposed=config.model_dump(mode="json"), config=config
    )


def _ask_model(spec: DesignSpec, context: DesignContext, seed: int, model: ChatModel) -> Proposal:
    question = design_prompt(spec.variant, context)
    attempts: list[Attempt] = []
    completions: list[Completion] = []
    for attempt in range(spec.retries + 1):
        sampling = Sampling(
            max_tokens=spec.max_tokens,
            temperature=spec.temperature if attempt == 0 else 1.0,
            seed=seed_integer(seed, context.current.stage, "design", attempt),
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
