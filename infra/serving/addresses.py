"""Where the two servers of `envwright serve` listen."""

import socket
from collections.abc import Callable

from envgen.errors import ConfigError
from envgen.frozen import Frozen
from infra.serving.ports import holder, is_free, next_free

PREFECT_PORT, MLFLOW_PORT = 4200, 5000


class Addresses(Frozen):
    """Where the two servers listen."""

    host: str
    prefect: int
    mlflow: int

    @property
    def local_host(self) -> str:
        """The host under which processes of this machine reach the servers."""
        return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(
            self.host, f"[{self.host}]" if ":" in self.host else self.host
        )

    @property
    def shown_host(self) -> str:
        """The host under which a browser reaches them, also from elsewhere where they are exposed."""
        return socket.gethostname() if self.host in {"0.0.0.0", "::"} else self.local_host

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches them."""
        return self.host in {"localhost", "::1"} or self.host.startswith("127.")

    @property
    def hosts(self) -> list[str]:
        """The hosts under which a browser of this machine may reach them, sorted, and `shown_host`."""
        own = (
            {"localhost", "127.0.0.1", "[::1]"} if self.loopback or self.host in {"0.0.0.0", "::"} else set()
        )
        return sorted({*own, self.local_host, self.shown_host})

    @property
    def origins(self) -> list[str]:
        """The addresses of Prefect's UI: the only pages that a browser lets read its API."""
        return [f"http://{host}:{self.prefect}" for host in self.hosts]

    @property
    def api(self) -> str:
        """Prefect's API, for processes of this machine."""
        return f"http://{self.local_host}:{self.prefect}/api"

    @property
    def tracking(self) -> str:
        """MLflow, for processes of this machine."""
        return f"http://{self.local_host}:{self.mlflow}"


def choose_addresses(
    host: str, prefect: int | None, mlflow: int | None, limit: int, confirm: Callable[[str], bool] | None
) -> Addresses:
    """The ports to use. Where one is taken, `confirm` is asked for others unless the ports were given; else
    ConfigError with a command that works."""
    wanted = {"--prefect-port": prefect or PREFECT_PORT, "--mlflow-port": mlflow or MLFLOW_PORT}
    if len(set(wanted.values())) == 1:
        raise ConfigError(
            f"--prefect-port and --mlflow-port are both {prefect or PREFECT_PORT}; give two ports"
        )
    taken = {option: port for option, port in wanted.items() if not is_free(host, port)}
    chosen = dict(wanted)
    for option, port in taken.items():
        chosen[option] = next_free(host, port, chosen.values())
    if taken:
        complaint = "; ".join(f"{option} {port} is taken by {holder(port)}" for option, port in taken.items())
        flags = {"--host": host} if host != "127.0.0.1" else {}
        options = {**flags, **chosen} | ({"--limit": limit} if limit != 1 else {})
        command = "envwright serve " + " ".join(f"{option} {value}" for option, value in options.items())
        free = ", ".join(str(chosen[option]) for option in taken)
        if prefect or mlflow or confirm is None or not confirm(f"{complaint}. Use {free} instead?"):
            raise ConfigError(f"{complaint}. The next free: {command}")
    return Addresses(host=host, prefect=chosen["--prefect-port"], mlflow=chosen["--mlflow-port"])
