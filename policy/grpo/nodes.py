"""Training on several machines: `python -m policy.grpo.nodes everywhere OPTIONS` on the first of them.

It becomes the command of ENVWRIGHT_NODES, as Slurm's `srun`, which starts `python -m policy.grpo.nodes here
OPTIONS` once on each machine. That becomes `accelerate launch OPTIONS` with the place of its machine. All of
them see the run directory under the same path.
"""

import os
import shlex
import sys

from envgen.errors import ConfigError
from policy.grpo.launch import NODES, machines

_PLACE = {
    "--machine_rank": "SLURM_NODEID",
    "--main_process_ip": "MASTER_ADDR",
    "--main_process_port": "MASTER_PORT",
}
"""Option of `accelerate launch` -> the environment variable that says it."""


def command_everywhere(arguments: list[str]) -> list[str]:
    """What starts training on every machine."""
    return [*shlex.split(os.environ[NODES]), sys.executable, "-m", "policy.grpo.nodes", "here", *arguments]


def command_here(arguments: list[str]) -> list[str]:
    """What starts the training processes of this machine; ConfigError names what the environment lacks."""
    if missing := [name for name in _PLACE.values() if not os.environ.get(name)]:
        raise ConfigError(
            f"{', '.join(missing)}: not set, so that this machine does not know its place in training;"
            f" {NODES} has to start it with them, as srun in infra/deploy/slurm/worker.sbatch"
        )
    place = [part for option, name in _PLACE.items() for part in (option, os.environ[name])]
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--num_machines", str(machines())]
    return [*launch, *place, *arguments]


def main() -> None:
    """Entry point on each machine."""
    where, *arguments = sys.argv[1:]
    try:
        command = {"everywhere": command_everywhere, "here": command_here}[where](arguments)
    except ConfigError as error:
        sys.exit(f"error: {error}")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
