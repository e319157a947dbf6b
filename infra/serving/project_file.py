"""`prefect.toml` in the working directory: how other terminals find the server that `envwright serve`
started, and log in there.

Prefect reads it after the environment and before the profiles.
"""

import json
import tomllib
from contextlib import suppress
from pathlib import Path

from envgen.files import write_text

FILE = Path("prefect.toml")
_MARK = "# Written by `envwright serve`"


def ours(path: Path = FILE) -> bool:
    """Whether the file is there and `envwright serve` wrote it."""
    try:
        return path.read_text(encoding="utf-8").startswith(_MARK)
    except (OSError, ValueError):
        return False


def write(api: str, auth_string: str, path: Path = FILE) -> bool:
    """Name a server in the file and what logs in there; only its owner can read it. False if a file is there
    that somebody else wrote."""
    if path.exists() and not ours(path):
        return False
    # Of visible ASCII characters a JSON string is a TOML string too.
    values = f"url = {json.dumps(api)}\nauth_string = {json.dumps(auth_string)}\n"
    write_text(
        path,
        f"{_MARK}, which removes it at its end: commands in this folder use that server.\n[api]\n{values}",
        private=True,
    )
    return True


def named_server(path: Path = FILE) -> str | None:
    """The server that our file names; None without one."""
    if not ours(path):
        return None
    with suppress(tomllib.TOMLDecodeError, KeyError, TypeError):
        return str(tomllib.loads(path.read_text(encoding="utf-8"))["api"]["url"])
    return None


def remove(api: str, path: Path = FILE) -> None:
    """Remove our file if it names this server."""
    if named_server(path) == api:
        path.unlink(missing_ok=True)
