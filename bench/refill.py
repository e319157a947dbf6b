"""One stage of GRPO from the base policy without and with refill, judged on a test set.

`python bench/refill.py [--preset tiny] [--seeds 5] [--refill 2] [--processes 2]`. For each seed it trains
three policies: without refill; with refill for as many steps; and with refill for as many steps as generate
as many tokens as without. All start from the same policy and the same data. Test instances are none of the
training and the validation instances; changes are paired by seed and instance.
"""

import argparse
import json
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from envgen.dataset import write_dataset
from envgen.environment import Source
from envgen.estimates import difference, rate
from envgen.files import write_json
from envgen.sampling import sample
from infra.config.preset import Preset, load_preset
from infra.config.sets import TestSpec
from infra.markdown import table as markdown_table
from policy.chat.contract import Sampling
from policy.chat.engine import TransformersEngine
from policy.checkpoints import resolve_model
from policy.child import run_child
from policy.evaluation import evaluate
from policy.grpo.train_log import read_train_log
from policy.grpo.train_spec import CHECKPOINT, TRAIN_LOG, TrainingSettings, TrainSpec

FIRST_SEED = 61
"""No comparison in the documentation uses it or the seeds after it."""
OFF, STEPS, TOKENS = "none", "refill, equal steps", "refill, equal tokens"


def draw(preset: Preset, path: Path, seed: int, without: frozenset[str]) -> None:
    """Draw training data by the default config of a preset, without these ids."""
    instances, _ = sample(preset.task, preset.default_config, preset.instances, Source(seed), without)
    write_dataset(path, instances, preset.prompt_style, {}, preset.environment)


def train(
    preset: Preset, folder: Path, data: Path, seed: int, settings: TrainingSettings, **options: Any
) -> dict[str, Any]:
    """Train one stage in its own process; return what it cost, from its log."""
    spec = TrainSpec(
        parent=resolve_model(preset.model),
        data=data,
        output=folder,
        work=folder / "work",
        environment=preset.environment,
        style=preset.prompt_style,
        rewards=preset.rewards,
        trl={**preset.trl, "num_train_epochs": preset.epochs, "save_strategy": "no", **options},
        seed=seed,
        training=settings,
    )
    spec.work.mkdir(parents=True)
    run_child("policy.grpo.training", spec, folder / "spec.json", folder / "training.log", lambda entry: None)
    log = read_train_log(folder / TRAIN_LOG)
    entries = [entry for strata in log["strata"] for entry in strata]
    return {
        "steps": len(log["step"]),
        "tokens": sum(log["completion_tokens"]),
        "seconds": sum(log["seconds"]),
        "offered": sum(entry["answers"] for entry in entries),
        "kept": sum(entry["kept"] for entry in entries),
        "without signal": sum(entry["answers"] * entry["zero_variance"] for entry in entries),
    }


def judged(preset: Preset, source: str, instances: list[Any], log: Path) -> list[int]:
    """Whether a policy's greedy answer to each instance is valid, 0 or 1."""
    engine = TransformersEngine(source, preset.engine, log)
    try:
        sampling = Sampling(max_tokens=preset.max_answer_tokens)
        rollouts = evaluate(engine, preset.task, instances, preset.prompt_style, sampling)
    finally:
        engine.close()
    return [int(rollout.verdict.valid) for rollout in rollouts]


def one_seed(name: str, folder: Path, seed: int, refill: float, test: list[Any]) -> dict[str, Any]:
    """Train and judge the three policies of a seed."""
    preset = load_preset(name)
    data = folder / "train.parquet"
    draw(preset, data, seed, frozenset(instance.id for instance in test))
    results: dict[str, Any] = {}
    for way in (OFF, STEPS, TOKENS):
        settings = preset.training.model_copy(update={"refill": 1.0 if way == OFF else refill})
        options = {}
        if way == TOKENS:
            # The learning rate falls to zero within these steps, as in the other two.
            spent = results[STEPS]["tokens"] / results[STEPS]["steps"]
            options["max_steps"] = max(round(results[OFF]["tokens"] / spent), 1)
        where = folder / way.replace(", ", "-").replace(" ", "-")
        cost = train(preset, where, data, seed, settings, **options)
        valid = judged(preset, str(where / CHECKPOINT), test, where / "engine.log")
        results[way] = {**cost, "valid": valid}
        write_json(where / "result.json", results[way])
        print(f"{preset.name}, seed {seed}, {way}: {100 * np.mean(valid):.1f} % valid", flush=True)
    return results


def compare(name: str, seeds: int, refill: float, processes: int, folder: Path) -> dict[str, Any]:
    """Train `seeds` x 3 policies, `processes` at once; rates, differences and costs of the three ways."""
    preset = load_preset(name)
    validation = preset.validation.draw(preset.task)
    test = TestSpec(seed=7).draw(preset.task, preset.validation, frozenset(i.id for i in validation))
    strata = [instance.stratum for instance in test]
    base = judged(preset, resolve_model(preset.model), test, folder / "base.log")
    numbers = range(FIRST_SEED, FIRST_SEED + seeds)
    for seed in numbers:
        (folder / str(seed)).mkdir()
    # Each process has its own scorer.
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        folders = [folder / str(seed) for seed in numbers]
        runs = list(pool.map(one_seed, repeat(name), folders, numbers, repeat(refill), repeat(test)))
    ways: dict[str, Any] = {}
    off = np.array([run[OFF]["valid"] for run in runs])
    for way in (OFF, STEPS, TOKENS):
        valid = np.array([run[way]["valid"] for run in runs])
        costs = {
            key: float(np.mean([run[way][key] for run in runs])) for key in runs[0][way] if key != "valid"
        }
        ways[way] = {"valid": str(rate(valid, strata)), **costs}
        if way != OFF:
            ways[way]["minus none"] = str(difference(valid - off, strata))
    return {"preset": name, "seeds": seeds, "test": len(test), "base": str(rate(base, strata)), "ways": ways}


def table(results: dict[str, Any]) -> str:
    """The results as a table in Markdown."""
    rows = [
        {
            "": way,
            "valid, %": row["valid"],
            "minus none, points": row.get("minus none", ""),
            "steps": f"{row['steps']:.0f}",
            "tokens": f"{row['tokens']:,.0f}",
            "groups without signal": f"{row['without signal'] / row['offered']:.0%} of those generated",
        }
        for way, row in results["ways"].items()
    ]
    what = f"{results['preset']}: {results['seeds']} seeds, {results['test']} test instances, base policy"
    return f"{what} {results['base']} % valid\n\n{markdown_table(pd.DataFrame(rows))}"


def main() -> None:
    """Print the table; the last line is its content as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--refill", type=float, default=2.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="an empty one, to keep policies, logs and results in")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.folder or Path(name)
        results = compare(arguments.preset, arguments.seeds, arguments.refill, arguments.processes, folder)
    print(table(results), json.dumps(results), sep="\n", file=sys.stdout)


if __name__ == "__main__":
    main()
