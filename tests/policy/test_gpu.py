"""Training on a GPU: one stage of `tiny`, and steps of Qwen3's smallest shape. `pytest -m gpu` on a machine
that has one, in about two minutes; the shapes are rehearsed elsewhere."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

BENCH = Path(__file__).parents[2] / "bench" / "gpu.py"
no_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no CUDA device here")


def measured(part: str, folder: Path, *options: str) -> Any:
    out = folder / "gpu.json"
    subprocess.run([sys.executable, BENCH, part, "--out", out, *options], check=True)
    return json.loads(out.read_text())[part]


@pytest.mark.gpu
@no_gpu
def test_a_stage_of_tiny_learns_on_the_gpu_as_on_the_cpu(tmp_path: Path):
    rows = measured("tiny", tmp_path)
    gpu, cpu = rows["gpu"], rows["cpu"]
    assert abs(gpu["valid before, %"] - cpu["valid before, %"]) < 1, "the same weights, the same answers"
    for row in (gpu, cpu):
        assert row["valid after, %"] > row["valid before, %"] + 2


@pytest.mark.gpu
@no_gpu
def test_a_step_of_a_real_shape_fits_the_card_that_its_preset_names(tmp_path: Path):
    [row] = measured("shapes", tmp_path, "--presets", "qwen3-0.6b", "--lengths", "4096")
    assert row["peak GiB"] < 24


@pytest.mark.slow
def test_the_steps_of_a_small_shape_are_rehearsed_without_a_gpu(tmp_path: Path):
    rows = measured("shapes", tmp_path, "--rehearse", "--lengths", "16")
    assert [row["seconds a pass"] > 0 for row in rows] == [True]
