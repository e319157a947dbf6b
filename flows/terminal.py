"""What may be shown in a terminal."""


def printable(text: str) -> str:
    """The text without the characters that would steer a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)
