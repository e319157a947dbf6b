"""Ports to listen on: whether they are free, who holds them, and which are free instead."""

import errno
import socket
from collections.abc import Collection

import psutil

from envgen.errors import ConfigError

SEARCHED = 200


def is_free(host: str, port: int) -> bool:
    """Whether a server can listen there; ConfigError if the host is none of this machine's, or the port is
    not for this user."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise ConfigError(
            f"--host {host!r}: {error.strerror}; give the name or address of this machine, or 127.0.0.1"
        ) from None
    with socket.socket(family, kind, protocol) as probe:
        # As servers do: connections that ended a moment ago do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise ConfigError(
                f"--host {host!r}, port {port}: {error.strerror}; give an address of this machine, and a port"
                " above 1023"
            ) from None
    return True


def next_free(host: str, port: int, taken: Collection[int] = ()) -> int:
    """The first free port after `port` that is not in `taken`."""
    for candidate in range(port + 1, min(port + SEARCHED, 65536)):
        if candidate not in taken and is_free(host, candidate):
            return candidate
    raise ConfigError(f"--host {host!r}: no free port in the {SEARCHED} after {port}; give others")


def holder(port: int) -> str:
    """The process that listens on a port, as far as this user may see it: `pid 12 (command)`."""
    try:
        found = next(
            c.pid
            for c in psutil.net_connections("tcp")
            if c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port == port and c.pid
        )
        command = " ".join(psutil.Process(found).cmdline())
    except (StopIteration, psutil.Error):
        return "a process that this user cannot see"
    return f"pid {found} ({command if len(command) <= 100 else command[:97] + '...'})"
