"""A trace of the design call of a stage: one span for each answer of the model, with its real times."""

from datetime import UTC, datetime
from typing import Any

import mlflow
from mlflow.entities import SpanType
from mlflow.tracing.constant import SpanAttributeKey, TraceMetadataKey

from engineer.engineers.llm import conversations
from engineer.proposal import Attempt, Proposal


def log_trace(proposal: Proposal, experiment: str, run: str, model: str | None, tags: dict[str, str]) -> str:
    """Log the trace of a proposal that a model was asked for; return its id.

    `run` is the MLflow run of the stage, `model` the MLflow model that answered, if it is one of ours.
    """
    start = _nanoseconds(proposal.attempts[0].started) if proposal.attempts else None
    metadata = {TraceMetadataKey.SOURCE_RUN: run}
    if model:
        metadata[TraceMetadataKey.MODEL_ID] = model
    root = mlflow.start_span_no_context(
        f"design stage {proposal.stage + 1}",
        SpanType.AGENT,
        inputs={"prompt": proposal.prompt, "engineer": proposal.engineer, "variant": proposal.variant},
        tags=tags,
        metadata=metadata,
        experiment_id=experiment,
        start_time_ns=start,
    )
    end = start
    asked = conversations(proposal)
    for number, (attempt, conversation) in enumerate(zip(proposal.attempts, asked, strict=False), start=1):
        begun = _nanoseconds(attempt.started)
        end = begun + int(attempt.seconds * 1e9)
        messages = [message.model_dump(mode="json") for message in conversation]
        span = mlflow.start_span_no_context(
            f"answer {number}",
            SpanType.CHAT_MODEL,
            parent_span=root,
            inputs={"messages": messages},
            attributes={SpanAttributeKey.CHAT_USAGE: _usage(attempt)},  # type: ignore[dict-item]
            start_time_ns=begun,
        )
        span.end(
            {"content": attempt.text, "error": attempt.error}, status=_status(attempt.error), end_time_ns=end
        )
    config = proposal.config.model_dump(mode="json")
    outputs = {"config": config, "rationale": proposal.rationale, "fallback": proposal.fallback}
    root.end({**outputs, "changes": proposal.changes}, status=_status(proposal.fallback), end_time_ns=end)
    return root.trace_id


def _usage(attempt: Attempt) -> dict[str, int]:
    used = {"input_tokens": attempt.prompt_tokens, "output_tokens": attempt.completion_tokens}
    return {**used, "total_tokens": sum(used.values())}


def _status(error: Any) -> str:
    return "ERROR" if error else "OK"


def _nanoseconds(moment: datetime) -> int:
    return int(moment.astimezone(UTC).timestamp() * 1e9)
