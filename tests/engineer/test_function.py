"""A function in a file as an engineer: its edits, its options, its errors."""

from collections.abc import Callable
from pathlib import Path

import pytest
from contexts import LATEST, SPACE, design_context, designed, env_config

from engineer.contract import Proposal
from engineer.engineers.registry import engineer_label, function_engineer, resolve, split_context
from engineer.spec import EngineerSpec
from envgen.errors import ConfigError, EngineerError

FIVE_LINES = """
def propose(context, *, width=0.1):
    rates = context.valid_rates()
    return {s: {"data_ratio": p * (1 - p) + width} for s, p in rates.items()}, "data where half is solved"
"""

Propose = Callable[..., Proposal]


@pytest.fixture
def propose(tmp_path: Path) -> Propose:
    """Return the proposal of a function whose body is given."""

    def run(body: str, state: dict | None = None, parameters: str = "", **options: object) -> Proposal:
        text = body if "def " in body else f"def propose(context{parameters}):\n    {body}\n"
        (tmp_path / "mine.py").write_text(text)
        spec = resolve(EngineerSpec(name=f"{tmp_path}/mine.py:propose", options=options), SPACE, 4)
        return designed(spec, design_context().model_copy(update={"state": state or {}}))

    return run


def config_of(share: float, **knobs: float):
    """The latest config of boards with another share of 5x5, and knobs of 5x5."""
    small, large = LATEST.strata["3"], LATEST.strata["5"]
    numbers = {**large.knobs, **knobs}.values()
    return env_config({3: (round(1 - share, 4), *small.knobs.values()), 5: (share, *numbers)})


def test_five_lines_design(propose: Propose):
    rates = design_context().valid_rates()
    assert set(rates) == {"3", "5"}
    weights = {name: p * (1 - p) + 0.2 for name, p in rates.items()}
    proposal = propose(FIVE_LINES, width=0.2)
    assert proposal.config == config_of(round(weights["5"] / sum(weights.values()), 4))
    assert (proposal.engineer, proposal.rationale) == ("mine", "data where half is solved")
    assert (proposal.changes, proposal.fallback, proposal.attempts) == ((), None, ())


OLD = LATEST.shares["5"]
EDITS = {
    "nothing": ("{}", config_of(OLD)),
    "a knob": ('{"5": {"wait_ratio": 0.75}}', config_of(OLD, wait_ratio=0.75)),
    "a share, and the rest makes room": ('{5: {"data_ratio": 0.9}}', config_of(0.9)),
    "weights": ('{3: {"data_ratio": 10}, 5: {"data_ratio": 30}}', config_of(0.75)),
    "a knob too far": ('{5: {"hole_ratio": 9}}', config_of(OLD, hole_ratio=0.4)),
    "a share below nothing": ('{3: {"data_ratio": -1}, 5: {"data_ratio": 2}}', config_of(1)),
    "numbers of numpy": ('{5: {"data_ratio": __import__("numpy").float32(0.5)}}', config_of(0.5)),
}


@pytest.mark.parametrize(("edits", "config"), EDITS.values(), ids=list(EDITS))
def test_what_edits_do_not_name_stays_and_the_rest_becomes_legal(propose: Propose, edits: str, config):
    assert propose(f"return {edits}").config == config


def test_state_comes_back_chance_is_repeatable_and_shares_of_0_keep_the_config(propose: Propose):
    body = 'return {}, "", {"n": context.state.get("n", 0) + 1, "r": __import__("random").random()}'
    first, second = propose(body, {"n": 4}), propose(body, {"n": 4})
    assert (first.state["n"], first.state) == (5, second.state)
    nothing = propose('return {s: {"data_ratio": 0} for s in context.space.names}, "why", {"n": 1}')
    assert (nothing.config, nothing.state, nothing.rationale) == (LATEST, {"n": 1}, "why")
    assert nothing.fallback == "the previous config is kept: every data_ratio is 0"


WRONG = {
    "return context.state['moon']": r"(?s)mine.py., line 2, in propose\n.*KeyError: 'moon'\nmend .*mine.py",
    "raise SystemExit(3)": "SystemExit: 3",
    "raise ValueError(chr(0xD800))": "ValueError: \\?",
    "return None": "it returned None; expected edits, ",
    "return {}, {}": "expected edits",
    "return {}, '', {}, 1": "expected edits",
    "return {4: {}}": "there is no map size '4'; known are 3, 5",
    "return {5: 0.5}": "5: 0.5 is no dict of numbers",
    "return {5: {'waitratio': 1}}": "5.waitratio: there is no such number; did you mean 'wait_ratio'",
    "return {5: {'wait_ratio': '1'}}": "5.wait_ratio: '1' is no finite number",
    "return {5: {'wait_ratio': float('nan')}}": "nan is no finite number",
    "return {5: {'data_ratio': 30}}": "a data_ratio above 1 needs one for every stratum; 3 have none",
    "return {}, '', {'a': {1}}": "not JSON serializable",
}


@pytest.mark.parametrize(("body", "reason"), WRONG.items(), ids=list(WRONG))
def test_what_a_function_does_wrong_stops_the_run_and_says_where(propose: Propose, body: str, reason: str):
    with pytest.raises(EngineerError, match=reason) as stopped:
        propose(body)
    assert str(stopped.value).startswith("engineer 'mine' failed after stage 2:\n")
    assert "engineer/propose.py" not in str(stopped.value)


REFUSED = {
    "an option of another name": (", *, width=0.1", {"widht": 1}, "no 'widht'; did you mean 'width'"),
    "an option of another type": (", n=1", {"n": 1.5}, "n: Input should be a valid integer"),
    "an annotated option": (", n: float | None = None", {"n": "x"}, "n: Input should be a valid number"),
    "no default": (", n", {}, "parameter 'n' has no default; give it one"),
    "a default of another type": (", n: int = 'x'", {}, "n: Input should be a valid integer"),
    "a default that cannot be stored": (", n=object()", {}, "mine.py:propose: "),
}


@pytest.mark.parametrize(("parameters", "options", "reason"), REFUSED.values(), ids=list(REFUSED))
def test_options_are_refused_before_a_run(propose: Propose, parameters: str, options: dict, reason: str):
    with pytest.raises(ConfigError, match=reason):
        propose("return {}", parameters=parameters, **options)


@pytest.mark.parametrize(
    ("name", "source", "reason"),
    [
        ("mine.py:propos", "def propose(context): ...", "has no function 'propos'; did you mean 'propose'"),
        ("mine.py:propose", "def propose(:", r"(?s)cannot be loaded:.*mine.py\", line 1.*SyntaxError"),
        ("mine.py:propose", "import no_such", "(?s)cannot be loaded:.*line 1.*No module named 'no_such'"),
        ("other.py:propose", "", "other.py: there is no such file"),
        ("fixed.py:propose", "", "'fixed' is another engineer"),
        ("a b.py:propose", "", "'a b' .* cannot be a name; rename a b.py"),
        ("mine.py", "", "names no function; write .*mine.py:propose"),
    ],
)
def test_a_file_that_is_no_engineer_is_refused(tmp_path: Path, name: str, source: str, reason: str):
    if source:
        (tmp_path / "mine.py").write_text(source)
    with pytest.raises(ConfigError, match=reason):
        resolve(EngineerSpec(name=f"{tmp_path}/{name}"), SPACE, 4)


def test_a_run_keeps_the_code_it_began_with_and_another_process_refuses_changed_code(tmp_path, monkeypatch):
    file = tmp_path / "mine.py"
    file.write_text('def propose(context):\n    return {}, "old"\n')
    monkeypatch.chdir(tmp_path)
    spec = resolve(EngineerSpec(name="./mine.py:propose"), SPACE, 4)
    assert spec.name == f"{file}:propose"
    file.write_text('def propose(context):\n    return {}, "new"\n')
    assert designed(spec).rationale == "old"
    function_engineer.cache_clear()
    with pytest.raises(ConfigError, match=r"mine.py changed since the run began; put it back"):
        designed(spec)
    file.unlink()
    assert engineer_label(spec.name, "V6") == "mine", "a run is shown without the file"
    assert split_context(spec.name) == (spec.name, "")
