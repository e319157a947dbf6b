"""Throughput of our evaluation against a bare engine call on the same prompts, both warm, in turns."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from envgen.dataset import USUAL
from envgen.files import write_json
from envgen.mapf.prompts import PromptStyle, prompt
from infra.config.preset import load_preset
from infra.config.settings import Settings
from infra.runs.data import validation_instances
from policy.chat.answers import KeptAnswers
from policy.chat.contract import Sampling
from policy.chat.engine import EngineChatModel
from policy.chat.engine_config import EngineConfig
from policy.chat.replica import vllm_python
from policy.checkpoints import TINY_DIRECTORY
from policy.evaluation import evaluate

REPEATS = 9
BARE_LOG = "bare.log"
STYLE, SAMPLING = PromptStyle.COMPACT, Sampling(max_tokens=40)


def evaluation_speed(config: EngineConfig) -> tuple[float, float, float, float]:
    """(ours, bare, ratio, ratio of CPU time): answers a second of the preset `tiny`'s validation set,
    medians; ratios are medians of those of each turn.

    On a machine with other work wall time jumps by a tenth between two turns; CPU time, of all processes that
    take part, does not.

    Ours is `evaluate` through an engine in its process, with kept answers and verdicts; bare is
    `tests/perf/bare_engine.py`. ModelError if the engine is not installed."""
    instances = validation_instances(load_preset("tiny"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        engine = EngineChatModel(str(TINY_DIRECTORY), config, folder / "engine.log", Settings().vllm_python)
        bare_process = _bare_engine(folder, config, [prompt(i.problem, STYLE) for i in instances])

        def ours() -> tuple[float, float]:
            kept = KeptAnswers(engine, folder / "partial.jsonl", {})
            pids = [os.getpid(), *(replica.pid for replica in engine.replicas if replica.pid)]
            used, started = sum(map(_cpu_seconds, pids)), time.perf_counter()
            evaluate(kept, USUAL.load(), instances, STYLE, SAMPLING)
            seconds = time.perf_counter() - started
            kept.path.unlink()
            return seconds, sum(map(_cpu_seconds, pids)) - used

        def bare() -> tuple[float, float]:
            return _bare_turn(bare_process, folder)

        try:
            _ = ours(), bare()  # the first answers are not counted
            turns = [(ours(), bare()) if turn % 2 else (bare(), ours())[::-1] for turn in range(REPEATS)]
        finally:
            engine.close()
            bare_process.communicate()
    seconds, bare_seconds = (
        statistics.median(side[0] for side in sides) for sides in zip(*turns, strict=True)
    )
    wall, cpu = (statistics.median(bare[clock] / ours[clock] for ours, bare in turns) for clock in (0, 1))
    return len(instances) / seconds, len(instances) / bare_seconds, wall, cpu


def _bare_engine(folder: Path, config: EngineConfig, prompts: list[str]) -> subprocess.Popen[str]:
    """The process of `bare_engine.py` that answers these prompts for each line it is given."""
    python = vllm_python(Settings().vllm_python) if config.backend == "vllm" else sys.executable
    spec = {
        "source": str(TINY_DIRECTORY),
        "backend": config.backend,
        "dtype": config.dtype,
        "batch_size": config.batch_size,
        "max_tokens": SAMPLING.max_tokens,
        "prompts": prompts,
    }
    write_json(folder / "spec.json", spec)
    command = [python, str(Path(__file__).with_name("bare_engine.py")), str(folder / "spec.json")]
    with open(folder / BARE_LOG, "w") as log:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)


def _bare_turn(process: subprocess.Popen[str], folder: Path) -> tuple[float, float]:
    """Seconds, and seconds of CPU time, in which the bare engine answers all prompts once."""
    assert process.stdin is not None
    assert process.stdout is not None
    used = _cpu_seconds(process.pid)
    process.stdin.write("\n")
    process.stdin.flush()
    line = process.stdout.readline()
    assert line, (folder / BARE_LOG).read_text()[-2000:]
    return float(line), _cpu_seconds(process.pid) - used


def _cpu_seconds(pid: int) -> float:
    """What a process and its children have used of the processor so far."""
    process = psutil.Process(pid)
    times = (
        [one.cpu_times() for one in (process, *process.children(recursive=True))]
        if pid != os.getpid()
        else [process.cpu_times()]
    )
    return sum(one.user + one.system for one in times)
