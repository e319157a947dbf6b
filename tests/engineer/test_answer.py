import json

import pytest
from contexts import DEFAULT, SPACE, assert_legal, boards, env_config, repeatable
from hypothesis import given
from hypothesis import strategies as st
from support.designs import answer_text

from engineer.answer import MAX_RATIONALE, AnswerError, parse_answer, project
from envgen.config import EnvConfig
from envgen.space import Space

KNOBS = ("data_ratio", *(knob.name for knob in SPACE.knobs))


def numbers(*values: float) -> dict[str, float]:
    return dict(zip(KNOBS, values, strict=True))


GOOD = {"3": numbers(0.75, 0.25, 0.5), "5": numbers(0.25, 0.4, 0)}


def projected(sizes: dict) -> tuple[EnvConfig, tuple[str, ...]]:
    return project({"sizes": sizes}, SPACE, DEFAULT)


hundredths = st.integers(0, 100).map(lambda n: n / 100)


@st.composite
def configs_on_hundredths(draw: st.DrawFn) -> tuple[Space, EnvConfig]:
    space = boards(*sorted(draw(st.lists(st.integers(3, 10), min_size=1, max_size=8, unique=True))))
    inner = len(space.names) - 1
    cuts = sorted(draw(st.lists(st.integers(0, 100), min_size=inner, max_size=inner)))
    shares = [(b - a) / 100 for a, b in zip([0, *cuts], [*cuts, 100], strict=True)]
    sizes = {
        size: (share, draw(st.integers(0, 50)) / 100, draw(hundredths))
        for size, share in zip(map(int, space.names), shares, strict=True)
    }
    return space, env_config(sizes)


@repeatable
@given(configs_on_hundredths(), st.text(st.characters(exclude_categories=["Cs"]), max_size=MAX_RATIONALE))
def test_a_config_survives_the_way_through_its_answer_text(drawn: tuple[Space, EnvConfig], rationale: str):
    space, config = drawn
    previous = env_config({size: (1 / len(space.names), 0.1, 0.1) for size in map(int, space.names)})
    read, raw = parse_answer(answer_text(rationale, config), SPACE)
    assert read == rationale
    assert project(raw, space, previous) == (config, ())


@pytest.mark.parametrize(("rationale", "read"), [("x" * 1000, "x" * MAX_RATIONALE), (["no", "text"], "")])
def test_a_rationale_is_cut_to_its_length_and_may_be_no_text(rationale: object, read: str):
    answer = {"rationale": rationale, "config": {"sizes": GOOD}}
    assert parse_answer(json.dumps(answer), SPACE) == (read, {"sizes": GOOD})


def test_numbers_out_of_range_are_clamped_and_each_change_is_recorded():
    config, changes = projected({"3": numbers(7, 0.9, 1.5), "5": numbers(-3, 0, -0.25)})
    assert config == env_config({3: (1, 0.4, 1), 5: (0, 0.2, 0)})
    assert len(changes) == 6


@pytest.mark.parametrize("alias", ["9", "03", "3.0", " 3", "٣", "３", "+3", "3x3", "three", ""])
def test_only_the_plain_name_of_a_stratum_of_the_space_counts(alias: str):
    config, changes = projected({alias: GOOD["3"], "5": GOOD["5"]})
    assert config.strata["3"]["hole_ratio"] == DEFAULT.strata["3"]["hole_ratio"]
    assert repr(alias) in changes[0]


@pytest.mark.parametrize("value", [None, "much", True, [0.9], 10**400], ids=lambda value: str(value)[:9])
@pytest.mark.parametrize("knob", KNOBS)
def test_a_knob_that_is_missing_or_no_number_keeps_its_previous_value(knob: str, value: object):
    part = {name: number for name, number in {**GOOD["5"], knob: value}.items() if number is not None}
    config, changes = projected(GOOD | {"5": part})
    assert knob in changes[0]
    if knob != "data_ratio":
        assert config.strata["5"][knob] == DEFAULT.strata["5"][knob]
        assert len(changes) == 1
    assert_legal(config, SPACE)


@pytest.mark.parametrize("part", [None, 3, "all", [GOOD["5"]]], ids=repr)
def test_a_stratum_that_is_no_object_keeps_its_previous_knobs(part: object):
    config, changes = projected({"3": GOOD["3"], "5": part})
    assert config.strata["5"].knobs == {"hole_ratio": 0.3, "wait_ratio": 0.25}
    assert len(changes) >= 3


def test_a_stratum_that_the_previous_config_did_not_have_gets_no_share():
    config, _ = project({"sizes": {"3": GOOD["3"]}}, SPACE, env_config({3: (1, 0.3, 0.5)}))
    assert config == env_config({3: (1, 0.25, 0.5), 5: (0, 0.2, 0)})


any_part = st.fixed_dictionaries(dict.fromkeys(KNOBS, st.floats(-2, 2)))


@repeatable
@given(configs_on_hundredths(), st.dictionaries(st.integers(3, 10).map(str), any_part, max_size=8))
def test_projecting_twice_changes_nothing_more(drawn: tuple[Space, EnvConfig], raw: dict):
    space, previous = drawn
    try:
        once, _ = project({"sizes": raw}, space, previous)
    except AnswerError:
        return
    assert_legal(once, space)
    assert "-0.0" not in once.model_dump_json()
    assert project(once.model_dump(mode="json"), space, previous) == (once, ())
