"""The pins, and their hashes."""

import re
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
HASHED = ("hashed", "hashed-sources", "hashed-torch")
"""What a machine with the CUDA build has; the CPU build is another file of the same version of torch."""


def pins(*files: str) -> dict[str, str]:
    """Package -> its exact version."""
    lines = [line for file in files for line in (ROOT / file).read_text().splitlines()]
    found = [Requirement(line.rstrip(" \\")) for line in lines if re.match(r"[A-Za-z]", line)]
    named = {re.sub(r"[-_.]+", "-", one.name).lower(): str(one.specifier) for one in found}
    assert len(named) == len(found), "a package has one line"
    return named


def test_the_hashed_files_have_the_versions_of_constraints_txt():
    hashed = pins(*(f"requirements/{name}.txt" for name in HASHED))
    pinned = pins("constraints.txt")
    assert {name: hashed.get(name) for name in pinned} == pinned, "run make hashes"
    more = set(hashed) - set(pinned)
    assert all(name.startswith(("cuda-", "nvidia-")) for name in more), f"not in constraints.txt: {more}"


def test_the_cpu_build_of_torch_is_of_the_same_version():
    assert pins("requirements/hashed-torch-cpu.txt")["torch"] == pins("constraints.txt")["torch"] + "+cpu"


def test_every_pin_has_a_digest():
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        entries = re.split(r"\n(?=[A-Za-z])", path.read_text())[1:]
        assert entries, path
        for entry in entries:
            assert re.search(r"\n    --hash=sha256:[0-9a-f]{64}( |\n|$)", entry), f"{path.name}: {entry[:80]}"
            assert re.match(r"\S+==\S+( |$)", entry), entry[:80]


def test_product_and_engine_together_have_the_pins_of_the_product_but_those_that_vllm_forbids():
    own, both = pins("constraints.txt"), pins("constraints-vllm.txt")
    differ = {name for name in own if both.get(name) != own[name]}
    assert differ == {"apache-tvm-ffi", "llvmlite", "numba", "numpy", "setuptools", "xgrammar"}
    engine = pins("requirements-vllm.txt")
    assert set(engine) <= set(both), "what is installed with the engine alone has a pin"
    assert {name for name, version in engine.items() if version} == {"torch"}
