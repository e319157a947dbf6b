"""Which engineer a curriculum uses, and how it is asked."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from engineer.context import letters_of
from engineer.gate import Gate
from envgen.frozen import Frozen


def is_function(name: str) -> bool:
    """Whether an engineer is named by its function in a file, as `./mine.py:propose`."""
    return name.rpartition(":")[0].endswith(".py")


def located(name: str, folder: Path) -> str:
    """Return the name of a function with an absolute path, relative to `folder`; other names as they are."""
    path, _, function = name.rpartition(":")
    return f"{(folder / path).resolve()}:{function}" if is_function(name) else name


def short_name(name: str) -> str:
    """Return the name of an engineer in tables and file names: the stem of the file of a function."""
    return Path(name.rpartition(":")[0]).stem if is_function(name) else name


class EngineerSpec(Frozen, use_attribute_docstrings=True):
    """Who proposes configs, what they are shown, and how a model's answer is drawn."""

    name: str = Field(default="checkpoint", pattern=r"^[^\x00-\x1f]{1,500}$")
    """Who writes the next environment config: `checkpoint` asks the policy just trained, `base` the base
    policy, `openai` another LLM, `./mine.py:propose` is a function in a file; the others are rules."""
    sha256: str = ""
    """Digest of the file of a function; filled in."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the engineer, checked by its own model; see its docstring."""
    context: str = "V6"
    """What a model that designs is shown: letters of modules, as `FGHT`, or `V1` to `V6` of the paper."""
    max_tokens: int = Field(default=1024, ge=16, le=1_000_000)
    """Longest answer of a model engineer."""
    temperature: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Of the answer, and of its repair if it cannot be read; 0 is greedy."""
    schema_decoding: bool = True
    """Decode under the JSON schema of the answer."""
    thinking: bool = False
    """Let a model write freely before the JSON: only the repair of an answer is decoded under the schema.
    Raise max_tokens too, for example to 8192."""
    on_failure: Literal["keep", "stop"] = "keep"
    """After a design that fails, `keep` uses the previous config, `stop` ends the run until the same command
    is run again. A function that raises always ends it."""
    gate: Gate = "off"
    """What a significant drop of the valid rate leads to: nothing, or the config and checkpoint of the best
    stage."""

    @field_validator("context")
    @classmethod
    def _known(cls, context: str) -> str:
        letters_of(context)
        return context

    @field_validator("name")
    @classmethod
    def _absolute(cls, name: str, info: ValidationInfo) -> str:
        return located(name, (info.context or {}).get("folder", Path()))
