"""Engineers by name, and engineers of other packages."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from contexts import LATEST, SPACE, design_context, designed, env_config
from support.engineer_package import install_engineer

from engineer.contract import Engineer, Proposal
from engineer.engineers.registry import find_engineer, known_engineers, resolve
from engineer.spec import EngineerSpec
from envgen.errors import ConfigError

RULES = ["random", "fixed", "frontier", "bandit", "learnability", "gaussian", "window", "levels", "replay"]
OURS = ["checkpoint", "base", "openai", *RULES]
HEAD = """
from pydantic import Field
from engineer.contract import Engineer, Proposal, projected

class ENGINEER(Engineer):
    share: float = Field(default=0.25, ge=0, le=1)

    def propose(self, context, brief):
"""
GOOD = """
        one = {"data_ratio": self.share, "hole_ratio": 0.9, "wait_ratio": 0.5}
        raw, tide = {"sizes": dict.fromkeys(context.space.names, one)}, context.state.get("tide", 0) + 1
        return projected(context, raw, "The tide is in.", state={"tide": tide})
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a package with an engineer on the path, as an installer would: the module and its metadata."""

    return partial(install_engineer, tmp_path, monkeypatch)


def proposal_of(engineer: str, state: dict | None = None, **options: object) -> Proposal:
    context = design_context().model_copy(update={"state": state or {}})
    return designed(EngineerSpec(name=engineer, options=options), context)


def test_our_own_engineers_are_in_the_registry():
    assert known_engineers()[: len(OURS)] == OURS
    assert all(issubclass(find_engineer(name), Engineer) for name in OURS)
    assert [name for name in OURS if find_engineer(name).asks] == ["checkpoint", "base"]


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ConfigError) as refused:
        find_engineer("level")
    known, said = ", ".join(known_engineers()), "there is no engineer 'level'; did you mean 'levels'?"
    assert str(refused.value) == f"engineer.name: {said} known are {known}"


def test_an_engineer_of_another_package_is_found_and_designs(install: Install):
    install(HEAD + GOOD)
    assert "tidal" in known_engineers()
    spec = resolve(EngineerSpec(name="tidal"), SPACE, 3)
    assert spec.options == {"share": 0.25}
    proposal = proposal_of("tidal", {"tide": 4})
    assert proposal.config == env_config({3: (0.5, 0.4, 0.5), 5: (0.5, 0.4, 0.5)})
    assert (proposal.engineer, proposal.stage, proposal.rationale) == ("tidal", 2, "The tide is in.")
    assert proposal.state == {"tide": 5}
    assert "3x3 hole_ratio 0.9 was clamped to 0.2..0.4" in proposal.changes
    for options, reason in (
        ({"share": 2}, "share: Input should be less than or equal to 1"),
        ({"shore": 1}, "there is no 'shore'; did you mean 'share'"),
    ):
        with pytest.raises(ConfigError, match=f"engineer.options of engineer 'tidal': {reason}"):
            resolve(EngineerSpec(name="tidal", options=options), SPACE, 3)


CONFIG = "context.current.config"
EMPTY = f"type({CONFIG}).model_construct(strata={{}}, key='sizes')"


def exactly(sizes: str) -> str:
    return f"return Proposal(config=type({CONFIG}).model_validate({{'sizes': {sizes}}}))"


def remembers(value: str) -> str:
    return f"return Proposal(config={CONFIG}).model_copy(update={{'state': {{'a': {value}}}}})"


BROKEN = {
    "raises": ("raise KeyError('moon')", "KeyError: 'moon'"),
    "complains in half a character": ("raise ValueError(chr(0xD800))", "ValueError: ?"),
    "leaves the process": ("raise SystemExit(3)", "SystemExit: 3"),
    "returns nothing": ("return None", "it returned NoneType, expected a Proposal"),
    "returns a config": ("return context.current.config", "it returned EnvConfig, expected a Proposal"),
    "has no share left": (
        "return projected(context, {'sizes': {'3': {'data_ratio': 0}, '5': {'data_ratio': 0}}}, '')",
        "every data_ratio is 0",
    ),
    "leaves the space": (
        exactly("{4: dict(data_ratio=1, hole_ratio=0.2, wait_ratio=0)}"),
        "sizes: names ['4'], the space ['3', '5']; name the same, in this order",
    ),
    "exceeds the holes": (
        exactly("{s: dict(data_ratio=0.5, hole_ratio=0.5, wait_ratio=0) for s in (3, 5)}"),
        "sizes.3.hole_ratio: 0.5 is outside of the space, 0.2 to 0.4; move it inside",
    ),
    "escapes validation": (f"return Proposal.model_construct(config={EMPTY}, state={{}})", "at least 1"),
    "has a state that is no JSON": (remembers("{1, 2}"), "not JSON serializable"),
    "has a state that is endless": (remembers("'x' * 2_000_000"), "at most"),
    "has a state that is not finite": (remembers("1e999"), "not JSON compliant"),
    "writes half a character": (f"return Proposal(config={CONFIG}, rationale=chr(0xD800))", "surrogates not"),
}


@pytest.mark.parametrize(("body", "reason"), BROKEN.values(), ids=list(BROKEN))
def test_an_engineer_that_breaks_its_contract_costs_only_its_redesign(install: Install, body, reason: str):
    install(f"{HEAD}        {body}")
    proposal = proposal_of("tidal", {"tide": 4})
    assert proposal.config == LATEST
    assert (proposal.fallback or "").startswith("engineer 'tidal' failed, the previous config is kept: ")
    assert reason in (proposal.fallback or "")
    assert proposal.state == {"tide": 4}, "the state that it had"
    proposal.model_dump_json()


def test_what_a_engineer_does_to_its_context_stays_with_it(install: Install):
    body = "context.state['tide'] = 9; context.current.breakdown.strata.clear(); raise ValueError"
    install(f"{HEAD}        {body}")
    context = design_context().model_copy(update={"state": {"tide": 4}})
    before = context.model_copy(deep=True)
    designed(EngineerSpec(name="tidal"), context)
    assert context == before


NOT_LOADED = "cannot be loaded from tidal_engineer:ENGINEER"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such", f"{NOT_LOADED}: ModuleNotFoundError: No module named 'no_such'"),
        ("ENGINEERS = 1", f"{NOT_LOADED}: AttributeError"),
        ("ENGINEER = 1", "tidal_engineer:ENGINEER is 1; expected engineer.contract.Engineer"),
    ],
)
def test_a_package_that_cannot_be_loaded_is_named(install: Install, source: str, reason: str):
    install(source)
    with pytest.raises(ConfigError) as refused:
        resolve(EngineerSpec(name="tidal"), SPACE, 3)
    assert reason in str(refused.value)


def test_a_name_that_two_packages_give_is_refused(install: Install):
    install(HEAD + GOOD)
    install(HEAD + GOOD, package="other_engineer")
    install(HEAD + GOOD, name="frontier", package="third_engineer")
    with pytest.raises(ConfigError, match=r"'tidal' stands for .* and .*; uninstall one"):
        find_engineer("tidal")
    with pytest.raises(ConfigError, match=r"'frontier' stands for \S+rules:Frontier and third_engineer:"):
        find_engineer("frontier")
