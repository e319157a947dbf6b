"""What commands print."""

from rich.console import Console

console = Console()


def printable(text: str) -> str:
    """The text without the characters that would steer a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def say(text: str) -> None:
    """Print one line as it is: not wrapped, without markup, without control characters."""
    console.print(printable(text), soft_wrap=True, markup=False, highlight=False)
