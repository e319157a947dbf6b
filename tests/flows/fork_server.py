"""Runs `envwright` once for each request, every time in a process of its own that starts with the imports done.

Requests are lines of JSON: arguments, folder, environment, files for the output, and a limit on the size of files. The
reply is the exit code.
"""

import gc
import json
import os
import resource
import sys

# What the commands import late is imported once, before the forks.
import pyarrow.dataset  # noqa: F401

import envgen.judging_kernel  # noqa: F401
import flows.cli
import flows.convert
import flows.picture
import flows.verify
import infra.preset
import infra.runs.run  # noqa: F401


def become(request: dict) -> None:
    """Turn this process into one that was started as `envwright ARGUMENTS`."""
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    sys.argv = ["envwright", *request["arguments"]]
    for descriptor, path in enumerate([os.devnull, request["stdout"], request["stderr"]]):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), descriptor)
    if request["file_limit"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_limit"], resource.RLIM_INFINITY))


def serve() -> bool:
    """Answer requests until there are no more; true in a process that is to run its command."""
    gc.freeze()  # a collection in a child would copy all that it shares with this process
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            become(json.loads(line))
            return True
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return False


if __name__ == "__main__" and serve():
    flows.cli.main()
