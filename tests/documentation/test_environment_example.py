"""The environment that the docs show as a whole one is one."""

import re
from pathlib import Path

import pytest

from envgen.environment import Environment, Source
from envgen.errors import ConfigError
from envgen.registry import EnvironmentSpec, _load
from envgen.rows import instance_of, instance_row

ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """The example, found as an installed package's is."""
    blocks = re.findall(r"```python\n(.*?)```", ARCHITECTURE.read_text(), re.S)
    [code] = [block for block in blocks if "class " in block]
    [declared] = re.findall(r"```toml\n(.*?)```", ARCHITECTURE.read_text(), re.S)
    module, _, name = declared.split('"')[-2].partition(":")
    (tmp_path / f"{module}.py").write_text(code)
    info = tmp_path / "rotations-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rotations\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[envwright.environments]\nrotations = {module}:{name}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return EnvironmentSpec(name="rotations").load()  # type: ignore[return-value]


def test_the_environment_of_the_docs_draws_judges_and_stores(environment: Environment):
    for stratum in environment.space.strata:
        drawn = environment.generate(
            stratum.name, {"letters": stratum.knobs[0].high - 0.5}, 8, Source(0), frozenset()
        )
        assert len({one.id for one in drawn.instances}) == 8
        right = environment.judge(drawn.instances, [one.answer for one in drawn.instances])
        assert all(verdict.valid for verdict in right)
        assert not any(one.valid for one in environment.judge(drawn.instances, ["\0"] * 8))
        row = instance_row(environment, drawn.instances[0], "plain")
        assert instance_of(environment, row, "here") == drawn.instances[0]


def test_an_error_of_an_environment_says_what_was_drawn(environment: Environment):
    with pytest.raises(KeyError) as caught:
        environment.generate("short", {}, 1, Source(0), frozenset())
    assert not getattr(caught.value, "__notes__", [])
    type(environment).generate_one = lambda *_: 1 / 0  # type: ignore[method-assign, assignment]
    with pytest.raises(ZeroDivisionError) as failed:
        environment.generate("short", {"letters": 3}, 1, Source(0), frozenset())
    assert failed.value.__notes__ == ["generate_one of Rotations, stratum 'short', knobs {'letters': 3}"]


def test_an_environment_without_a_version_is_refused(environment: Environment, monkeypatch):
    monkeypatch.delattr(type(environment), "version")
    _load.cache_clear()
    with pytest.raises(
        ConfigError, match=r"environment.name: 'rotations' has no version; set it in its class"
    ):
        EnvironmentSpec(name="rotations").load()
