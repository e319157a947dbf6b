"""The auth string without which the Prefect server of `envwright serve` tells nobody more than that it is
up."""

import base64
import os
import secrets
from typing import NamedTuple

from envgen.errors import ConfigError

SERVER, CLIENT = "PREFECT_SERVER_API_AUTH_STRING", "PREFECT_API_AUTH_STRING"
"""Environment variables of Prefect: what its server expects, and what its clients send."""
REMEDY = f"export {CLIENT} with that of the server, or call this in the folder of `envwright serve`"


class Login(NamedTuple):
    """The auth string of a session."""

    auth_string: str
    variable: str | None
    """The environment variable that the user set it in; None if it was drawn."""

    @property
    def shown(self) -> str:
        """What to type into the login page of the UI. One of the user's own is not repeated."""
        return f"the value of {self.variable}" if self.variable else self.auth_string


def choose_login() -> Login:
    """The auth string that the user has set, or a random one of 192 bits.

    ConfigError if two different ones are set, or one with other characters than the 94 visible ones of ASCII.
    """
    given = {name: value for name in (SERVER, CLIENT) if (value := os.environ.get(name))}
    if not given:
        return Login(f"envwright:{secrets.token_urlsafe(24)}", None)
    if len(set(given.values())) > 1:
        raise ConfigError(
            f"{SERVER} and {CLIENT} differ, so that no worker could log in; give both the same value, or"
            " unset one"
        )
    variable, value = next(iter(given.items()))
    # Prefect's server answers every request with an error if it is not ASCII, and its login page cannot send
    # it.
    if not all("!" <= character <= "~" for character in value):
        raise ConfigError(
            f"{variable}: holds a space, a control character or a letter outside of ASCII (not shown); choose"
            " another, as user:password"
        )
    return Login(value, variable)


def authorization(auth_string: str) -> dict[str, str]:
    """The HTTP header that logs in with an auth string."""
    return {"Authorization": f"Basic {base64.b64encode(auth_string.encode()).decode()}"}
