"""The engineer's calls as MLflow traces, made from stored proposals after the fact.

A trace a proposal: below an AGENT span a CHAT_MODEL span for each answer and a PARSER span for what was read
from it. Ids are digests of what is recorded, so that a trace is the same however often it is recorded.
"""

import json
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mlflow.entities import Span, SpanType, TraceInfo, TraceLocation, TraceState
from mlflow.entities.model_registry import PromptVersion
from mlflow.exceptions import MlflowException
from mlflow.tracing.client import TracingClient
from mlflow.tracing.constant import SpanAttributeKey, TokenUsageKey, TraceMetadataKey, TraceTagKey

from engineer.engineers.asking import conversations
from engineer.proposal import Attempt, Proposal
from envgen.files import digest
from infra.lineage.facts import PREFIX
from infra.lineage.recorder import Recorder
from policy.chat.contract import Conversation

PREVIEW = 1000
"""Characters of prompt and answer in a list of traces."""


class Call(NamedTuple):
    """A proposal that a model was asked for, and what it belongs to."""

    proposal: Proposal
    curriculum: str
    """Key of the curriculum."""
    candidate: int
    run: str
    """The run of its stage."""
    prompt: PromptVersion
    asked: str | None
    """The LoggedModel that answered; None for a model that is not ours."""
    stored: datetime
    """When it was stored, at the latest: the time of a proposal without attempts."""
    tags: dict[str, str]


def record_call(recorder: Recorder, call: Call) -> str:
    """The id of the trace of a call, made if it is new."""
    trace_id, tracing = (
        trace_id_of(call.curriculum, call.candidate, call.proposal),
        TracingClient(recorder.tracking_uri),
    )
    spans = _spans(call, trace_id)
    info = _info(call, trace_id, recorder.experiment, spans[0])
    if not _complete(tracing, trace_id):
        tracing.log_spans(recorder.experiment, spans)
        recorder.client.link_prompt_versions_to_trace([call.prompt], tracing.start_trace(info).trace_id)
    return trace_id


def trace_id_of(curriculum: str, candidate: int, proposal: Proposal) -> str:
    """The id of the trace of a proposal: the number of the candidate tells equal proposals apart."""
    return f"tr-{digest([curriculum, candidate, proposal])[:32]}"


def _complete(tracing: TracingClient, trace_id: str) -> bool:
    """Whether all of a trace is there: its prompt is linked last."""
    try:
        return TraceTagKey.LINKED_PROMPTS in tracing.get_trace_info(trace_id).tags
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "NOT_FOUND"):
            return False
        raise


def _info(call: Call, trace_id: str, experiment: str, root: Span) -> TraceInfo:
    proposal, start, end = (
        call.proposal,
        root.start_time_ns // 1_000_000,
        (root.end_time_ns or 0) // 1_000_000,
    )
    answer = proposal.attempts[-1].text if proposal.attempts else proposal.fallback or ""
    metadata = {
        TraceMetadataKey.SOURCE_RUN: call.run,
        TraceMetadataKey.TOKEN_USAGE: json.dumps(_usage(proposal.prompt_tokens, proposal.completion_tokens)),
    }
    return TraceInfo(
        trace_id=trace_id,
        trace_location=TraceLocation.from_experiment_id(experiment),
        request_time=start,
        state=TraceState.OK if proposal.fallback is None else TraceState.ERROR,
        request_preview=proposal.prompt[:PREVIEW],
        response_preview=answer[:PREVIEW],
        execution_duration=end - start,
        trace_metadata=metadata | ({TraceMetadataKey.MODEL_ID: call.asked} if call.asked else {}),
        tags={TraceTagKey.TRACE_NAME: root.name, PREFIX + "curriculum": call.curriculum, **call.tags},
    )


def _spans(call: Call, trace_id: str) -> list[Span]:
    proposal, times, new = call.proposal, _times(call), _Maker(trace_id)
    outputs = {
        "config": proposal.config.model_dump(mode="json"),
        "rationale": proposal.rationale,
        "fallback": proposal.fallback,
    }
    inputs = {
        "prompt": proposal.prompt,
        "engineer": proposal.engineer,
        "variant": proposal.variant,
        "left out": proposal.cuts,
    }
    name, failed = f"design stage {proposal.stage + 1}", proposal.fallback
    start, end = times[0][0], times[-1][1]
    root = new.span(name, SpanType.AGENT, start, end, inputs, outputs, error=failed)
    spans, asked = [root], conversations(proposal)
    for number, (attempt, messages, when) in enumerate(
        zip(proposal.attempts, asked, times, strict=False), start=1
    ):
        spans += _answered(new, root, number, attempt, messages, when, _read(proposal, attempt))
    if len(asked) > len(proposal.attempts) and failed:
        put = _messages(asked[-1])
        spans.append(
            new.span("no answer", SpanType.CHAT_MODEL, end, end, put, None, parent=root, error=failed)
        )
    return spans


def _answered(
    new: "_Maker",
    root: Span,
    number: int,
    attempt: Attempt,
    conversation: Conversation,
    when: tuple[int, int],
    read: dict[str, Any],
) -> list[Span]:
    """An answer, and what was read from it."""
    (start, end), usage = when, _usage(attempt.prompt_tokens, attempt.completion_tokens)
    put, said = _messages(conversation), _choice(attempt)
    name, text, error = f"answer {number}", attempt.text, attempt.error
    return [
        new.span(name, SpanType.CHAT_MODEL, start, end, put, said, parent=root, usage=usage),
        new.span(f"read {name}", SpanType.PARSER, end, end, text, read, parent=root, error=error),
    ]


class _Maker:
    """Makes the spans of one trace; their ids are digests of its id and their names."""

    def __init__(self, trace_id: str) -> None:
        self.trace_id = trace_id

    def span(
        self,
        name: str,
        kind: str,
        start: int,
        end: int,
        inputs: Any,
        outputs: Any,
        *,
        parent: Span | None = None,
        error: str | None = None,
        usage: dict[str, int] | None = None,
    ) -> Span:
        """A finished span; times in nanoseconds."""
        attributes = {
            SpanAttributeKey.REQUEST_ID: self.trace_id,
            SpanAttributeKey.SPAN_TYPE: kind,
            SpanAttributeKey.INPUTS: inputs,
            SpanAttributeKey.OUTPUTS: outputs,
            SpanAttributeKey.CHAT_USAGE: usage,
        }
        return Span.from_dict(
            {
                "name": name,
                "trace_id": self.trace_id,
                "span_id": digest([self.trace_id, name])[:16],
                "parent_span_id": parent.span_id if parent else None,
                "start_time_unix_nano": start,
                "end_time_unix_nano": end,
                "status": {"code": "ERROR" if error else "OK", "message": error or ""},
                "attributes": {
                    key: json.dumps(value) for key, value in attributes.items() if value is not None
                },
            }
        )


def _times(call: Call) -> list[tuple[int, int]]:
    """Start and end of each attempt in nanoseconds, at least one."""
    times, last = [], int(call.stored.timestamp() * 1e9)
    for attempt in call.proposal.attempts:
        start = int(attempt.started.astimezone(UTC).timestamp() * 1e9)
        last = start + int(attempt.seconds * 1e9)
        times.append((start, last))
    return times or [(last, last)]


def _messages(conversation: Conversation) -> dict[str, Any]:
    return {"messages": [message.model_dump(mode="json") for message in conversation]}


def _choice(attempt: Attempt) -> dict[str, Any]:
    return {
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": attempt.text},
                "finish_reason": attempt.finish_reason,
            }
        ]
    }


def _read(proposal: Proposal, attempt: Attempt) -> dict[str, Any]:
    if attempt.error is not None:
        return {"error": attempt.error}
    return {
        "proposed": proposal.proposed,
        "projection": proposal.changes,
        "config": proposal.config.model_dump(mode="json"),
    }


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {
        TokenUsageKey.INPUT_TOKENS: prompt,
        TokenUsageKey.OUTPUT_TOKENS: completion,
        TokenUsageKey.TOTAL_TOKENS: prompt + completion,
    }
