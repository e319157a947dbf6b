"""The version that reports name."""

import runpy
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

from infra.config import versions


def test_only_a_commit_of_envwright_is_named_and_not_one_of_the_repository_it_is_installed_in(tmp_path: Path):
    copy = Path(shutil.copy(versions.__file__, tmp_path))
    code_version = runpy.run_path(str(copy))["code_version"]
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "theirs"], check=True)
    assert code_version() == version("envwright")
    subprocess.run([*git, "add", copy.name], check=True)
    commit = subprocess.check_output([*git, "rev-parse", "--short", "HEAD"], text=True).strip()
    assert code_version() == f"{version('envwright')}+{commit}"
