"""What commands print."""

from rich.console import Console

from envgen.errors import ConfigError

console = Console()


def printable(text: str) -> str:
    """The text without the characters that would steer a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def say(text: str) -> None:
    """Print one line as it is: not wrapped, without markup, without control characters."""
    console.print(printable(text), soft_wrap=True, markup=False, highlight=False)


def ask_for_yes(request: str, yes: bool, instead: str) -> None:
    """ConfigError for a request that takes long, unless it was said to be meant."""
    if not yes:
        raise ConfigError(f"{request}: takes long; add --yes if it is meant, or {instead}")
