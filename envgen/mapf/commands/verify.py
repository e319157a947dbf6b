"""Verdicts for a file of answers."""

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from envgen.breakdown import Breakdown, Judged, count_verdicts
from envgen.dataset import USUAL
from envgen.errors import DataError, describe_validation_error
from envgen.files import read_json_lines
from envgen.mapf.commands.problems import posed, solved
from envgen.mapf.problem import Instance
from envgen.mapf.verifier import verify_batch


class Answer(BaseModel):
    """One line of a file of answers."""

    model_config = ConfigDict(extra="forbid")
    id: str
    completion: str


def verdict_lines(data: Path, completions: Path) -> tuple[list[str], Breakdown]:
    """One JSON line a completion, in order, and their breakdown; DataError names file and line."""
    instances: dict[str, Instance] = {}
    for instance in solved(posed(str(data)), str(data)):
        if instance.problem.id in instances:
            raise DataError(
                f"{data}: id {instance.problem.id!r} occurs twice, so an answer to it cannot be judged; give"
                " every problem its own id"
            )
        instances[instance.problem.id] = instance
    answers = []
    for number, value in read_json_lines(completions):
        try:
            answer = Answer.model_validate(value)
        except ValidationError as error:
            raise DataError(describe_validation_error(error, f"{completions}: line {number}")) from None
        if answer.id not in instances:
            raise DataError(f"{completions}: line {number}: id {answer.id!r} is not in {data}")
        answers.append(answer)
    if not answers:
        raise DataError(f"{completions}: holds no answer")
    judged = [instances[answer.id] for answer in answers]
    verdicts = verify_batch(judged, [answer.completion for answer in answers])
    lines = [
        json.dumps({"id": answer.id, **verdict.model_dump(mode="json")})
        for answer, verdict in zip(answers, verdicts, strict=True)
    ]
    answered = [
        Judged(one.stratum, verdict, one.labels) for one, verdict in zip(judged, verdicts, strict=True)
    ]
    return lines, count_verdicts(USUAL.load().space, answered)
