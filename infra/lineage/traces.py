"""The engineer's calls as MLflow traces, made from stored proposals after the fact.

A trace a proposal: below an AGENT span a CHAT_MODEL span for each answer and a PARSER span for what was read
from it. Ids are digests of what is recorded, so that a trace is the same however often it is recorded.
"""

import json
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from mlflow.entities import Span, SpanType, TraceInfo, TraceLocation, TraceState
from mlflow.entities.model_registry import PromptVersion
from mlflow.exceptions import MlflowException
from mlflow.tracing.client import TracingClient
from mlflow.tracing.constant import SpanAttributeKey, TokenUsageKey, TraceMetadataKey, TraceTagKey

from engineer.engineers.asking import conversations
from engineer.proposal import Attempt, Proposal
from envgen.files import digest
from infra.lineage.checkpoint_tags import PREFIX
from infra.lineage.recorder import Recorder
from policy.chat.contract import Conversation

PREVIEW = 1000
"""Characters of prompt and answer in a list of traces."""


class Call(NamedTuple):
    """A proposal that a model was asked for, and what it belongs to."""

    proposal: Proposal
    curriculum: str
    """Key of the curriculum."""
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
    trace_id = trace_id_of(call.curriculum, call.proposal)
    tracing = TracingClient(recorder.tracking_uri)
    if not _complete(tracing, trace_id):
        spans = _spans(call, trace_id)
        tracing.log_spans(recorder.experiment, spans)
        tracing.start_trace(_info(call, trace_id, recorder.experiment, spans[0]))
        recorder.client.link_prompt_versions_to_trace([call.prompt], trace_id)
    return trace_id


def trace_id_of(curriculum: str, proposal: Proposal) -> str:
    """The id of the trace of a proposal."""
    return f"tr-{digest([curriculum, proposal])[:32]}"


def _complete(tracing: TracingClient, trace_id: str) -> bool:
    """Whether all of a trace is there: its prompt is linked last."""
    try:
        return TraceTagKey.LINKED_PROMPTS in tracing.get_trace_info(trace_id).tags
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "NOT_FOUND"):
            return False
        raise


def _info(call: Call, trace_id: str, experiment: str, root: Span) -> TraceInfo:
    proposal = call.proposal
    start, end = (at // 1_000_000 for at in (root.start_time_ns, root.end_time_ns or 0))
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
    proposal, times, asked = call.proposal, _times(call), conversations(call.proposal)
    failed, config = proposal.fallback, proposal.config.model_dump(mode="json")
    inputs = {
        "prompt": proposal.prompt,
        "engineer": proposal.engineer,
        "variant": proposal.variant,
        "left out": proposal.cuts,
    }
    outputs = {"config": config, "rationale": proposal.rationale, "fallback": failed}
    over = times[0][0], times[-1][1]
    root = _span(
        trace_id, f"design stage {proposal.stage + 1}", SpanType.AGENT, over, inputs, outputs, failed
    )
    below = partial(_span, trace_id, parent=root.span_id)
    spans = [root]
    attempts = zip(proposal.attempts, asked, times, strict=False)
    for number, (attempt, conversation, when) in enumerate(attempts, start=1):
        name, put, error = f"answer {number}", _messages(conversation), attempt.error
        usage = _usage(attempt.prompt_tokens, attempt.completion_tokens)
        read = {"proposed": proposal.proposed, "projection": proposal.changes, "config": config}
        if error is not None:
            read = {"error": error}
        read_at = when[1], when[1]
        spans += [
            below(name, SpanType.CHAT_MODEL, when, put, _choice(attempt), usage=usage),
            below(f"read {name}", SpanType.PARSER, read_at, attempt.text, read, error),
        ]
    if len(asked) > len(proposal.attempts) and failed:
        end = over[1], over[1]
        spans.append(below("no answer", SpanType.CHAT_MODEL, end, _messages(asked[-1]), None, failed))
    return spans


def _span(
    trace_id: str,
    name: str,
    kind: str,
    when: tuple[int, int],
    inputs: Any,
    outputs: Any,
    error: str | None = None,
    *,
    parent: str | None = None,
    usage: dict[str, int] | None = None,
) -> Span:
    """A finished span, `when` its start and end in nanoseconds; its id is a digest of trace and name."""
    attributes = {
        SpanAttributeKey.REQUEST_ID: trace_id,
        SpanAttributeKey.SPAN_TYPE: kind,
        SpanAttributeKey.INPUTS: inputs,
        SpanAttributeKey.OUTPUTS: outputs,
        SpanAttributeKey.CHAT_USAGE: usage,
    }
    return Span.from_dict(
        {
            "name": name,
            "trace_id": trace_id,
            "span_id": digest([trace_id, name])[:16],
            "parent_span_id": parent,
            "start_time_unix_nano": when[0],
            "end_time_unix_nano": when[1],
            "status": {"code": "ERROR" if error else "OK", "message": error or ""},
            "attributes": {key: json.dumps(value) for key, value in attributes.items() if value is not None},
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
    message = {"role": "assistant", "content": attempt.text}
    return {"choices": [{"index": 0, "message": message, "finish_reason": attempt.finish_reason}]}


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {
        TokenUsageKey.INPUT_TOKENS: prompt,
        TokenUsageKey.OUTPUT_TOKENS: completion,
        TokenUsageKey.TOTAL_TOKENS: prompt + completion,
    }
