"""Damage the files that envwright reads, let its readers read them, and count what comes of it.

`make damage` prints the table; `python tests/chaos/damage.py --files 100 --only 'Parquet'` a part of it. A
damaged file is refused with one message, or read unchanged, as when the damage lies where nobody looks. A
traceback, the end of the process, and other data than those that were written, where a digest is known, are
failures: exit code 1. Files are read in a process of their own, so that its end is counted too. File n of a
kind is the same for the same seed."""

import argparse
import logging
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

OUTCOMES = ("message", "unchanged", "other", "silently other", "traceback", "abort")
"""`other` is data that differ where nobody knows the digest, so that nobody can notice."""
FAILURES = OUTCOMES[3:]
PATIENCE = 120
"""Seconds that the reading of one file may take; after them its process is ended, which counts as abort."""
MEMORY = 8 * 2**30
"""Bytes that the reading process may allocate."""


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The bytes with something wrong; never the same bytes."""
    changed = data
    while changed == data:
        changed = bytearray(data)
        at, length = _place(data, rng), min(len(data), int(2 ** rng.uniform(0, 10)))
        kind = rng.choice(("bits", "cut", "swap", "zeros", "noise", "insert", "delete"))
        if kind == "bits":
            for _ in range(rng.choice((1, 1, 1, 2, 8))):
                changed[_place(data, rng)] ^= 1 << rng.randrange(8)
        elif kind == "cut":
            del changed[at:]
        elif kind == "swap":
            there = rng.randrange(len(data))
            size = min(length, abs(at - there), len(data) - max(at, there))
            changed[at : at + size], changed[there : there + size] = (
                data[there : there + size],
                data[at : at + size],
            )
        elif kind == "zeros":
            changed[at : at + length] = bytes(len(changed[at : at + length]))
        elif kind == "noise":
            changed[at : at + length] = rng.randbytes(len(changed[at : at + length]))
        elif kind == "insert":
            changed[at:at] = rng.choice((rng.randbytes(length), data[at : at + length]))
        else:
            del changed[at : at + length]
        changed = bytes(changed)
    return changed


def _place(data: bytes, rng: random.Random) -> int:
    """A place in the data: each half of the time anywhere, else near its beginning or end, where the
    structure is."""
    near = rng.randrange(min(len(data), 2000))
    return rng.choice((rng.randrange(len(data)), rng.randrange(len(data)), near, len(data) - 1 - near))


def work(kind: str, folder: Path, seed: int, numbers: range) -> None:
    """Damage and read files of a kind; a line before each, and one with its outcome after it."""
    from damage_kinds import KINDS

    from envgen.errors import EnvwrightError

    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    one = KINDS[kind]
    path = one.make(folder)
    data, whole = path.read_bytes(), repr(one.read(path))
    said = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # where libraries that are not Python print too
    for number in numbers:
        path.write_bytes(damaged(data, random.Random(f"{seed} {kind} {number}")))
        print(number, "begin", file=said, flush=True)
        signal.alarm(PATIENCE)
        try:
            read = one.read(path)
            if one.known and read is None:
                outcome = "message"
            elif repr(read) == whole:
                outcome = "unchanged"
            else:
                outcome = "silently other" if one.known else "other"
        except EnvwrightError:
            outcome = "message"
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(last.filename).name}:{last.lineno}"
            outcome = f"traceback {type(error).__name__} in {where}: {error}"
        signal.alarm(0)
        print(number, outcome.replace("\n", " "), file=said, flush=True)


def outcomes(kind: str, seed: int, files: int) -> Iterator[tuple[int, str]]:
    """(number, outcome) of each file of a kind; a process that ends is started again after its file."""
    first = 0
    while first < files:
        begun = None
        with tempfile.TemporaryDirectory(prefix="damage-") as folder:
            arguments = ["--work", kind, folder, str(seed), str(first), str(files)]
            child = subprocess.Popen(
                [sys.executable, __file__, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
            with ThreadPoolExecutor(1) as pool:
                assert child.stdout
                assert child.stderr
                words = pool.submit(child.stderr.read)
                for line in child.stdout:
                    number, _, said = line.rstrip("\n").partition(" ")
                    if said == "begin":
                        begun = int(number)
                    else:
                        first, begun = int(number) + 1, None
                        yield int(number), said
                status = child.wait()
        if begun is None and first < files:
            raise SystemExit(f"{kind}: cannot begin: {words.result()[-2000:]}")
        if begun is not None:
            yield begun, f"abort with status {status}: {' '.join(words.result().split())[-200:]}"
            first = begun + 1


def table(counted: dict[str, Counter[str]]) -> str:
    """Files by kind and outcome."""
    width = max(map(len, (*counted, "all")))
    rows = [["kind".ljust(width), "files", *OUTCOMES]]
    total: Counter[str] = sum(counted.values(), Counter())
    for kind, found in [*counted.items(), ("all", total)]:
        rows.append([kind.ljust(width), f"{found.total():,}", *(f"{found[name]:,}" for name in OUTCOMES)])
    return "\n".join(
        "  ".join(cell.rjust(len(head)) for cell, head in zip(row, rows[0], strict=True)) for row in rows
    )


def main(arguments: Sequence[str]) -> int:
    """Print the table, and every failure by its number; 1 if there is one."""
    if arguments[:1] == ["--work"]:
        kind, folder, *numbers = arguments[1:]
        seed, first, last = map(int, numbers)
        work(kind, Path(folder), seed, range(first, last))
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=400, help="damaged files of each kind")
    parser.add_argument("--only", nargs="*", default=[""], help="kinds that contain one of these words")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="kinds that are read at the same time")
    options = parser.parse_args(arguments)
    from damage_kinds import KINDS

    chosen = [kind for kind in KINDS if any(word in kind for word in options.only)]
    counted: dict[str, Counter[str]] = {kind: Counter() for kind in chosen}

    def count(kind: str) -> None:
        for number, said in outcomes(kind, options.seed, options.files):
            name = next((one for one in OUTCOMES if said == one), said.split(" ")[0])
            counted[kind][name] += 1
            if name in FAILURES:
                print(f"{kind}, file {number}: {said[:300]}", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(count, chosen))
    print(table(counted))
    return int(any(found[name] for found in counted.values() for name in FAILURES))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
