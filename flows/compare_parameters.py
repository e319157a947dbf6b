"""What a comparison takes as parameters, and the curricula that it then consists of."""

from typing import Annotated

from pydantic import ConfigDict, Field

from engineer.engineers.registry import known_engineers
from envgen.errors import ConfigError
from envgen.seeds import Seed
from flows.parameters import PresetOptions, check_free, is_directory_name, stored_preset
from infra.analysis.spec import ComparisonSpec, Stage0, plan, read_comparison
from infra.config.settings import Settings
from infra.runs.files import COMPARISON
from policy.checkpoints import check_model


class ComparisonOptions(PresetOptions):
    """Which curricula a comparison consists of."""

    model_config = ConfigDict(title="Comparison")
    engineers: list[str] = Field(
        default=["checkpoint", "random", "fixed"],
        min_length=1,
        description="Engineers; one that reads a context may name its variant, as checkpoint:V1, and has the "
        "preset's if it names none. Known are "
        f"{', '.join(known_engineers())}.",
    )
    seeds: list[Seed] = Field(default=[0, 1, 2], min_length=1)
    """One stage 0 for all is trained with the first of them."""
    stage_0: Stage0 = "one"
    """One for all seeds, or one for each seed, which its curricula share."""
    registration: str = ""
    """A text file that says what is expected, on the machine that runs it. A comparison is not continued
    under another text."""


USUAL_COMPARISON = ComparisonOptions()
Jobs = Annotated[int, Field(ge=1, le=64)]


def chosen_comparison(preset: str, name: str, options: ComparisonOptions) -> ComparisonSpec:
    """Return the comparison that is asked for, every curriculum of it checked.

    The name of a comparison stands for all of it, the name of a run for its preset. ConfigError or ModelError
    says what is wrong."""
    check_free(name)
    directory = Settings().runs / preset
    if is_directory_name(preset) and (directory / COMPARISON).exists():
        if name not in ("", preset) or options.model_fields_set:
            raise ConfigError(
                f"{preset}: a comparison that is continued by its name takes no options; name its preset to"
                " add engineers, seeds or stages"
            )
        return read_comparison(directory)
    preset = stored_preset(preset) or preset
    own = options.model_dump(include={"stage_0", "registration"})
    spec = plan(preset, options.engineers, options.seeds, name=name, settings=options.overrides, **own)
    check_model(spec.preset.model)
    return spec
