"""Fit the simulated learner to recorded stages, and say how well it predicts others.

    python bench/fit_learner.py COMPARISON [--held-out 2]

COMPARISON is the folder of a comparison with a test set. For each stage and stratum the change of the logit
of the valid rate, over validation and test set, is set against the step that `policy.learner` expects:
rate x steps x learning rate x sum over strata o of transfer^distance x share_o x the mean standard deviation
of the rewards of a group at the rate before. Rate and transfer are fitted by least squares on all seeds but
the last ones; on those the rank correlation of the predicted and the recorded changes is printed.
"""

import argparse
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import least_squares
from scipy.special import expit, logit
from scipy.stats import spearmanr

from infra.config.preset import Preset
from policy.grpo.train_spec import deciding_options, group_size
from policy.learner import spread


class Stage(NamedTuple):
    """One stage of a run; arrays have an entry a stratum."""

    seed: int
    units: float
    """Optimizer steps x learning rate / 1e-4."""
    shares: np.ndarray
    before: np.ndarray
    """Valid rates, each answer counted with half an answer of either kind."""
    after: np.ndarray


def rates(folder: Path, names: tuple[str, ...]) -> np.ndarray:
    """Return the valid rates of the strata on validation and test set together."""
    columns = ["stratum", "valid"]
    files = (folder / name for name in ("rollouts.parquet", "test_rollouts.parquet"))
    answers = pd.concat([pd.read_parquet(file, columns=columns) for file in files])
    counts = answers.groupby("stratum")["valid"].agg(["sum", "count"]).loc[list(names)]
    return ((counts["sum"] + 0.5) / (counts["count"] + 1)).to_numpy()


def stages(run: Path) -> list[Stage]:
    """Return the stages that a run trained itself."""
    preset = Preset.model_validate(json.loads((run / "curriculum.json").read_text())["preset"])
    names, before, result = preset.space.names, rates(run / "start", preset.space.names), []
    prompts = deciding_options(preset.trl, preset.training, 1)["answers_a_step"] // group_size(preset.trl)
    steps = preset.instances * preset.epochs / prompts
    for number in range(preset.stages):
        folder = run / f"stage-{number:02}"
        after = rates(folder, names)
        config = json.loads((folder / "config.json").read_text())
        shares = np.array([part["data_ratio"] for part in next(iter(config.values())).values()])
        units = steps * float(preset.trl["learning_rate"]) / 1e-4
        result.append(Stage(preset.seed, units, shares, before, after))
        before = after
    return result


def predicted(stage: Stage, rate: float, transfer: float) -> np.ndarray:
    """Return the change of each stratum's logit."""
    places = np.arange(len(stage.shares))
    weights = transfer ** np.abs(places[:, None] - places)
    return rate * stage.units * weights @ (stage.shares * spread(stage.before))


def change(stage: Stage) -> np.ndarray:
    """Return the recorded change of each stratum's logit."""
    return logit(stage.after) - logit(stage.before)


def main() -> None:
    """Fit and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("comparison", type=Path)
    parser.add_argument("--held-out", type=int, default=2, help="seeds that are not fitted")
    options = parser.parse_args()
    runs = [file.parent for file in sorted(options.comparison.glob("*/curriculum.json"))]
    recorded = [stage for run in runs if not run.name.startswith("shared") for stage in stages(run)]
    seeds = sorted({stage.seed for stage in recorded})
    fitted = [stage for stage in recorded if stage.seed in seeds[: -options.held_out]]
    others = [stage for stage in recorded if stage.seed in seeds[-options.held_out :]]

    def residuals(values: np.ndarray) -> np.ndarray:
        return np.concatenate([predicted(stage, *values) - change(stage) for stage in fitted])

    best = least_squares(residuals, [0.5, 0.4], bounds=([0, 0], [10, 1]))
    rate, transfer = best.x
    print(f"{len(fitted)} stages of {len(seeds) - options.held_out} seeds: {rate=:.3f}, {transfer=:.3f}")
    for label, part in (("fitted", fitted), ("held out", others)):
        gains = [
            np.concatenate([expit(logit(stage.before) + moved(stage)) - stage.before for stage in part])
            for moved in (lambda stage: predicted(stage, *best.x), change)
        ]
        words = f"rank correlation of changes in points {spearmanr(*gains).statistic:.2f}"
        means = " and ".join(f"{100 * gain.mean():+.2f}" for gain in gains)
        print(f"{label}: {len(part)} stages, {words}; means, predicted and recorded, {means}")


if __name__ == "__main__":
    main()
