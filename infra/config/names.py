"""Names of the directories in the runs folder: one component of a path, and nothing that envwright keeps
there itself."""

from typing import Annotated

from pydantic import AfterValidator, StringConstraints, TypeAdapter, ValidationError

from envgen.errors import ConfigError, shown

RESERVED = ("benchmarks", "mlartifacts", "mlflow.db")
"""What else lies in the runs folder, besides files that start with a dot."""
_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


def _free(name: str) -> str:
    # The database has journals beside it, and some file systems take capitals for small letters.
    if name.lower().startswith(RESERVED):
        raise ValueError("is reserved")
    return name


Name = Annotated[str, StringConstraints(max_length=128, pattern=_PATTERN), AfterValidator(_free)]
"""The name of a curriculum, comparison or benchmark."""
Stem = Annotated[str, StringConstraints(max_length=60, pattern=_PATTERN)]
"""The name of a preset or spec, which the default names of its directories are made from."""
_NAME: TypeAdapter[str] = TypeAdapter(Name)


def checked_name(name: str, field: str = "--name") -> str:
    """The name, if it is a `Name`; ConfigError with the field it was given in, and what a name is."""
    try:
        return _NAME.validate_python(name)
    except ValidationError:
        reserved = f"and not begin with {', '.join(RESERVED[:-1])} or {RESERVED[-1]}"
        expected = (
            "a name has 1 to 128 letters, digits, dots, underscores and dashes, the first a letter or digit,"
            f" {reserved}"
        )
        raise ConfigError(
            f"{field} {shown(name)}: {expected}, for example my-run-2; the folder that it lies in is"
            " ENVWRIGHT_RUNS"
        ) from None
