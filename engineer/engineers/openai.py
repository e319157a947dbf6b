"""`openai`: a model behind any OpenAI-compatible endpoint designs.

Asked as `checkpoint` and `base` are, with its cost kept.
"""

from typing import Any

from pydantic import Field, model_validator

from engineer.context import DesignContext
from engineer.contract import Brief, Engineer, EngineerOptions
from engineer.engineers.asking import ask_model
from engineer.proposal import Proposal
from envgen.errors import ConfigError
from envgen.space import Space
from policy.chat.endpoint import Endpoint, check_endpoint, read_key


class OpenAIOptions(Endpoint, EngineerOptions):
    """The endpoint, as told in `policy.chat.endpoint`, and its prices."""

    prompt_price: float | None = Field(default=None, ge=0, le=1e6)
    """Price of a million prompt tokens, in any currency; without prices no cost is kept; 0 to 1,000,000."""
    completion_price: float | None = Field(default=None, ge=0, le=1e6)
    """Price of a million completion tokens, in the same currency; 0 to 1,000,000."""

    @model_validator(mode="before")
    @classmethod
    def _know(cls, given: dict[str, Any]) -> dict[str, Any]:
        unknown = sorted(set(given) - set(cls.model_fields))
        if unknown:
            # Not a ValueError: its message would show the value, which may be a key.
            known = ", ".join(sorted(cls.model_fields))
            raise ConfigError(
                f"engineer.options of engineer 'openai': there is no {unknown[0]!r}; known are {known}, "
                "and a key belongs in the environment"
            )
        return given

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """What tokens cost; None without prices."""
        if self.prompt_price is None or self.completion_price is None:
            return None
        return (prompt_tokens * self.prompt_price + completion_tokens * self.completion_price) / 1e6


def check(options: OpenAIOptions, space: Space, stages: int) -> None:
    """ValueError if the endpoint is none, or one of the prices is missing."""
    check_endpoint(options)
    if (options.prompt_price is None) != (options.completion_price is None):
        raise ValueError("prompt_price and completion_price: give both or neither")


def _propose(context: DesignContext, options: OpenAIOptions, brief: Brief) -> Proposal:
    """What a model behind any OpenAI-compatible endpoint answers to the design question."""
    from policy.chat.openai_model import OpenAIModel  # the client library takes two seconds to import

    model = OpenAIModel(options, read_key(options))
    proposal = ask_model(brief.spec, context, brief.seed, model)
    used = model.usage
    counted = {
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "requests": used.requests,
        "cost": options.cost(used.prompt_tokens, used.completion_tokens),
    }
    return proposal.model_copy(update=counted)


OPENAI = Engineer(_propose, OpenAIOptions, reads_context=True, check=check)
