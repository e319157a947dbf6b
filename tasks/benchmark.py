"""Answer a data set with any model: a checkpoint, a hub id, or an endpoint."""

import re
from pathlib import Path

from prefect import task
from pydantic import BaseModel, ConfigDict, Field

from envgen.breakdown import Breakdown
from envgen.dataset import read_dataset
from envgen.errors import ConfigError
from envgen.files import digest, file_digest, write_json
from envgen.problem import Instance
from envgen.prompts import PromptStyle
from infra.preset import load_preset
from infra.steps import run_step
from policy.answers import KeptAnswers
from policy.chat import ChatModel, Sampling
from policy.checkpoints import model_identity, resolve_model
from policy.endpoint import Endpoint, check_endpoint, read_key
from policy.engine_config import EngineConfig
from policy.evaluation import evaluate
from policy.rollouts import breakdown_of, read_rollouts, write_rollouts
from tasks.data import validation_instances
from tasks.learn import BREAKDOWN, PARTIAL, ROLLOUTS, read_breakdown
from tasks.run import engine, log, reporting, task_options


class BenchmarkSpec(BaseModel):
    """A model, a data set, and how it is asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    model: str = Field(min_length=1)
    """`tiny`, a checkpoint directory, a hub id, or `base_url#model` of an OpenAI-compatible endpoint."""
    data: str | None
    """A Parquet data set; None: the validation set of `preset`."""
    preset: str
    style: PromptStyle
    answer_tokens: int = Field(ge=8)
    batch_size: int = Field(ge=1)

    @property
    def endpoint(self) -> Endpoint | None:
        """The endpoint that `model` names, if it does."""
        address, mark, name = self.model.partition("#")
        return Endpoint(base_url=address, model=name) if mark and address.startswith(("http://", "https://")) else None


def benchmark_name(spec: BenchmarkSpec) -> str:
    """The name of a benchmark's directory: readable, and its own for each spec."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{spec.model}-{Path(spec.data).stem if spec.data else spec.preset}").strip("-")
    return f"{readable[-80:]}-{digest(spec)[:8]}"


@task(**task_options("benchmark"))
def answer_all(directory: Path, spec: BenchmarkSpec) -> Breakdown:
    """Write the rollouts and the failure breakdown of a model on a data set; found if they are there."""
    instances = read_dataset(Path(spec.data)) if spec.data else validation_instances(load_preset(spec.preset))
    endpoint = spec.endpoint
    source = spec.model if endpoint else resolve_model(spec.model)
    decides = {
        "model": source if endpoint else model_identity(source),
        "data": file_digest(Path(spec.data)) if spec.data else [instance.problem.id for instance in instances],
        "style": spec.style,
        "answer": spec.answer_tokens,
    }

    def body() -> None:
        config = EngineConfig(batch_size=spec.batch_size)
        model = _endpoint_model(endpoint) if endpoint else engine(source, config, directory / "logs" / "engine.log")
        kept = KeptAnswers(model, directory / PARTIAL, {"model": decides["model"], **({} if endpoint else config.decides)})
        _answer(kept, instances, spec, directory)
        kept.forget()

    record = run_step(directory, "benchmark", decides, (ROLLOUTS, BREAKDOWN), body)
    breakdown = read_breakdown(directory)
    log.info("%s: valid %s, optimal %s%s", spec.model, breakdown.overall.valid_rate, breakdown.overall.optimal_rate, " (found)" if record.reused else "")
    return breakdown


def _answer(model: ChatModel, instances: list[Instance], spec: BenchmarkSpec, directory: Path) -> None:
    progress = reporting(f"%d of {len(instances)} instances answered")
    write_rollouts(directory / ROLLOUTS, evaluate(model, instances, spec.style, Sampling(max_tokens=spec.answer_tokens), progress), spec.style)
    write_json(directory / BREAKDOWN, breakdown_of(read_rollouts(directory / ROLLOUTS)))


def _endpoint_model(endpoint: Endpoint) -> ChatModel:
    from policy.openai_model import OpenAIModel  # the client library takes two seconds to import

    try:
        check_endpoint(endpoint)
    except ValueError as error:
        raise ConfigError(f"model: {error}") from None
    return OpenAIModel(endpoint, read_key(endpoint))
