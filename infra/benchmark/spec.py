"""What a benchmark asks: a model, instances, and how; and the directory that belongs to it."""

import re
from pathlib import Path
from typing import Any

from pydantic import Field

from envgen.dataset import USUAL, environment_of
from envgen.errors import ConfigError
from envgen.files import digest
from envgen.frozen import Frozen
from envgen.registry import EnvironmentSpec
from envgen.suites import benchmark_of
from infra.config.settings import Settings
from policy.chat.endpoint import Endpoint, check_endpoint
from policy.chat.engine_config import EngineConfig
from policy.checkpoints import max_positions

ANSWER_TOKENS, COMPACT_ANSWER_TOKENS = 8192, 128
"""Longest answers: of a model that thinks before, and of one that only answers (at most 105 tokens of the
tiny policy are optimal)."""
COMPACT = "compact"
"""The style of models whose context is short; an environment that has none is asked in its usual one."""
PROMPT_TOKENS = 2048
"""More than a prompt in the usual style has; a context below twice as much is short."""


class BenchmarkSpec(Frozen):
    """A model, a data set, and how it is asked."""

    model: str
    """`tiny`, a checkpoint directory, a hub id, or `base_url#model` of an OpenAI-compatible endpoint."""
    data: str = ""
    """A source of `infra.benchmark.sources`; empty: the suite."""
    limit: int | None = Field(default=None, ge=1)
    """Instances that are in the same groups at most."""
    style: str = ""
    """Prompt style; `planned` fills it in."""
    answer_tokens: int = Field(default=0, ge=0)
    """Longest answer; `planned` fills in what is 0."""
    engine: EngineConfig = EngineConfig()
    """Not used for an endpoint."""

    @property
    def decides(self) -> dict[str, Any]:
        """What decides the answers, as JSON: a benchmark goes on with another batch size or more GPUs."""
        engine = {} if self.endpoint else {"engine": self.engine.decides}
        return self.model_dump(mode="json", exclude={"engine"}) | engine

    @property
    def environment(self) -> EnvironmentSpec:
        """The environment of what is answered; DataError if a data set cannot be read."""
        return environment_of(Path(self.data)) if self.data.endswith(".parquet") else USUAL

    @property
    def endpoint(self) -> Endpoint | None:
        """The endpoint that `model` names, if it does."""
        address, mark, name = self.model.partition("#")
        named = mark and address.startswith(("http://", "https://"))
        return Endpoint(base_url=address, model=name) if named else None

    @property
    def asks(self) -> str:
        """What is answered, in words."""
        return self.data or "the benchmark suite"


def benchmark_directory(spec: BenchmarkSpec) -> Path:
    """Return where a benchmark is kept: under a readable name, its own for all that decides answers."""
    data = Path(spec.data).stem if spec.data else "suite"
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{spec.model}-{data}").strip("-")
    return Settings().runs / "benchmarks" / f"{readable[-80:]}-{digest(spec.decides)[:8]}"


def planned(spec: BenchmarkSpec) -> BenchmarkSpec:
    """Fill in style and answer length for the model where they are left out: the compact style for a short
    context, as the tiny policy was taught. ConfigError, DataError or ModelError says what is wrong."""
    if not spec.model:
        endpoint = "base_url#model of an OpenAI-compatible endpoint"
        raise ConfigError(f"model: is empty; give tiny, a checkpoint directory, a hub id, or {endpoint}")
    environment, context = spec.environment.load(), _context(spec)
    benchmark_of(environment)
    short = context is not None and context < 2 * PROMPT_TOKENS and COMPACT in environment.styles
    style = spec.style or (COMPACT if short else environment.styles[0])
    if style not in environment.styles:
        raise ConfigError(f"style: {style!r} is none of {', '.join(environment.styles)}")
    room = min(length for length in (context, spec.engine.max_model_len, 2 * ANSWER_TOKENS) if length)
    longest = max(8, min(ANSWER_TOKENS, room - PROMPT_TOKENS))
    tokens = spec.answer_tokens or (COMPACT_ANSWER_TOKENS if style == COMPACT else longest)
    return spec.model_copy(update={"style": style, "answer_tokens": tokens})


def _context(spec: BenchmarkSpec) -> int | None:
    """Return the longest context of a checkpoint, if known; ConfigError if an endpoint cannot be asked so."""
    if spec.endpoint is None:
        return max_positions(spec.model)
    if chosen := sorted(spec.engine.model_dump(exclude={"batch_size"}, exclude_defaults=True)):
        problem = "is read where a model is run here, and an endpoint runs its own engine"
        raise ConfigError(f"{chosen[0]}: {problem}; leave it out")
    try:
        check_endpoint(spec.endpoint)
    except ValueError as error:
        raise ConfigError(f"model: {error}") from None
    return None
