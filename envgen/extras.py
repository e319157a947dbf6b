"""The optional parts of envwright, and how a message names them."""


def install(extra: str) -> str:
    """The command that installs an optional part, or several with commas between, from a checkout: no package
    index has envwright."""
    return f"pip install -c constraints.txt -e '.[{extra}]'"
