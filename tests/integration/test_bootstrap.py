"""The recipe of the start policy, shrunk: from nothing, then continued."""

import os
import subprocess
import sys

import pytest

from policy.chat import Sampling, ask


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_bootstrapped_policy_loads_answers_and_can_be_continued(tmp_path):
    environment = {**os.environ, "PREFECT_HOME": str(tmp_path / "prefect"), "OMP_NUM_THREADS": "1"}
    small = ["--steps", "3", "--boards", "48", "--designs", "24"]

    def bootstrap(*arguments: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "flows.cli", "bootstrap", *small, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)

    first = bootstrap("-o", str(tmp_path / "first"))
    assert first.returncode == 0, first.stdout + first.stderr
    again = bootstrap("-o", str(tmp_path / "second"), "--continue", str(tmp_path / "first"), "--seed", "1")
    assert again.returncode == 0, again.stdout + again.stderr
    missing = bootstrap("-o", str(tmp_path / "third"), "--continue", str(tmp_path / "nowhere"))
    assert missing.returncode == 2
    assert "config.json is missing" in missing.stderr

    from policy.transformers_model import TransformersModel

    tokenizers = []
    for name in ("first", "second"):
        model = TransformersModel(str(tmp_path / name), dtype="float32")
        assert model.complete([ask("Solve 3x3.")], Sampling(max_tokens=4))[0].completion_tokens > 0
        tokenizers.append(model.tokenizer.get_vocab())
    assert tokenizers[0] == tokenizers[1], "a continued policy keeps its tokenizer"
