"""`envwright serve` under the load of two curricula and a comparison: what its logs say, what it holds.

    python tests/chaos/serve_load.py --minutes 60

As soon as one of them ends, the next one of its kind is started. Prints the lines of the logs by kind
(docs/serving.md has those about locks), memory of each process at the start and at the end, and how the runs
ended."""

import argparse
import collections
import re
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import urllib3

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.envwright_serve import Served, serving
from support.prefect_servers import ask

_CURRICULUM = {"preset": "micro"}
_COMPARISON = {
    "preset": "micro",
    "options": {"engineers": ["random", "fixed"], "seeds": [0], "stages": 2},
}
WORK = {"curriculum/micro": [_CURRICULUM] * 2, "compare/tiny": [_COMPARISON]}
"""Deployment -> parameters of the runs that it always has under way, each with a name of its own."""
PLACES, SETTLED = 3, 30
"""Runs at a time; seconds until all processes have imported what they need."""
KINDS = {
    "database is locked": r"database is locked",
    "error": r"\bERROR\b|\bCRITICAL\b|Traceback \(most recent call last\)",
    "warning": r"\bWARNING\b|Warning:",
}
PROCESSES = {
    "Prefect server": "infra.serving.prefect_server",
    "MLflow server": "mlflow server",
    "worker local": "--pool local",
    "worker gpu": "--pool gpu",
    "janitor": "flows.cli janitor",
    "guard": "infra.serving.end_guard",
}
"""Name -> what is in its command line."""
ENDED = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
MIB = 2**20


def main() -> None:
    """Entry point; the exit code is 1 if a log holds an error or a run did not complete."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60, help="how long (60)")
    minutes = parser.parse_args().minutes
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), arguments=["--limit", str(PLACES)]) as served,
    ):
        began = time.monotonic()
        time.sleep(SETTLED)
        first = memory(served)
        runs = keep_busy(served, began + 60 * minutes)
        last, states = memory(served), collections.Counter(run["state"]["type"] for run in runs)
        found, lines = counted(served.folder / "runs" / ".serve")
    print(f"\n{minutes:.0f} minutes, {sum(states.values())} runs: {dict(states)}\n")
    print("| log lines | " + " | ".join(KINDS) + " |\n|---|" + "---:|" * len(KINDS))
    for log, counts in sorted(found.items()):
        print(f"| `{log}` | " + " | ".join(str(counts[kind]) for kind in KINDS) + " |")
    for line in lines[:40]:
        print(line)
    print("\n| process | MiB at the start | MiB at the end |\n|---|---:|---:|")
    for name in sorted(first):
        print(f"| {name} | {first[name]:.0f} | {last.get(name, 0):.0f} |")
    errors = sum(counts["error"] + counts["database is locked"] for counts in found.values())
    sys.exit(bool(errors or {"FAILED", "CRASHED"} & set(states)))


def keep_busy(served: Served, until: float) -> list[dict]:
    """Have all of WORK under way until then and see it to its end; all flow runs of the deployments."""
    deployments = {name: ask(f"{served.api}/deployments/name/{name}", method="GET")["id"] for name in WORK}
    started = 0
    while True:
        with suppress(urllib3.exceptions.HTTPError):  # an idle connection that the server has just closed
            wanted = {"deployments": {"id": {"any_": [*deployments.values()]}}, "limit": 200}
            mine = ask(f"{served.api}/flow_runs/filter", {**wanted, "sort": "START_TIME_DESC"})
            going = collections.Counter(
                run["deployment_id"] for run in mine if run["state"]["type"] not in ENDED
            )
            states = dict(collections.Counter(run["state"]["type"] for run in mine))
            print(f"{max(0, until - time.monotonic()) / 60:5.1f} min left, {states}", flush=True)
            if time.monotonic() > until and not going:
                return mine
            for name, always in WORK.items() if time.monotonic() < until else ():
                for parameters in always[going[deployments[name]] :]:
                    called = f"load-{started}"
                    body = {"parameters": {**parameters, "name": called}, "idempotency_key": called}
                    ask(f"{served.api}/deployments/{deployments[name]}/create_flow_run", body)
                    started += 1
        time.sleep(20)


def memory(served: Served) -> dict[str, float]:
    """Resident memory in MiB of `serve` and of what it keeps running."""
    found = {"envwright serve": psutil.Process(served.process.pid).memory_info().rss / MIB}
    for child in psutil.Process(served.process.pid).children():
        line = " ".join(child.cmdline())
        name = next((name for name, words in PROCESSES.items() if words in line), line)
        # MLflow's server is a child of its command.
        family = [child, *(child.children() if name == "MLflow server" else [])]
        found[name] = sum(process.memory_info().rss for process in family) / MIB
    return found


def counted(folder: Path) -> tuple[dict[str, collections.Counter], list[str]]:
    """Log -> kind -> lines of it, and the lines."""
    counts, lines = {}, []
    for log in folder.glob("*.log"):
        counts[log.name] = collections.Counter()
        for line in log.read_text(errors="replace").splitlines():
            kinds = [kind for kind, pattern in KINDS.items() if re.search(pattern, line)]
            counts[log.name].update(kinds)
            lines += [f"{log.name}: {line[:300]}"] if kinds else []
    return counts, lines


if __name__ == "__main__":
    main()
