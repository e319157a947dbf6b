"""The optional parts of envwright, and how a message names them."""


def install(extra: str) -> str:
    """The command that installs an optional part, or several with commas between, from a checkout: no package
    index has envwright."""
    pins = "constraints-vllm.txt" if extra.startswith("vllm") else "constraints.txt"
    return f"pip install -c {pins} -e '.[{extra}]'"
