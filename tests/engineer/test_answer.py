import json

import pytest
from contexts import DEFAULT, SPACE, assert_legal, boards, env_config, repeatable
from hypothesis import given, settings
from hypothesis import strategies as st

from engineer.answer import MAX_RATIONALE, AnswerError, answer_schema, answer_text, parse_answer, project
from engineer.proposal import MAX_TEXT, Proposal
from envgen.config import EnvConfig
from envgen.family import Space
from envgen.files import write_json

KNOBS = SPACE.numbers
GOOD = {
    "3": {"data_ratio": 0.75, "hole_ratio": 0.25, "wait_ratio": 0.5},
    "5": {"data_ratio": 0.25, "hole_ratio": 0.4, "wait_ratio": 0.0},
}


def answer(sizes: object = GOOD, **more: object) -> str:
    return json.dumps({"rationale": "why", "config": {"sizes": sizes}, **more})


def projected(sizes: dict) -> tuple[EnvConfig, tuple[str, ...]]:
    return project({"sizes": sizes}, SPACE, DEFAULT)


def changed(size: str, **knobs: object) -> dict:
    """The good sizes with some knobs of one of them replaced; None removes a knob."""
    return GOOD | {size: {k: v for k, v in {**GOOD[size], **knobs}.items() if v is not None}}


def test_the_schema_names_every_map_size_and_forbids_all_else():
    schema = answer_schema(boards(3, 4, 10, low=0.2))
    assert schema["required"] == ["rationale", "config"]
    assert schema["properties"]["rationale"] == {"type": "string", "maxLength": MAX_RATIONALE}
    sizes = schema["properties"]["config"]["properties"]["sizes"]
    assert sizes["required"] == ["3", "4", "10"]
    assert list(sizes["properties"]) == ["3", "4", "10"]
    for one in sizes["properties"].values():
        assert one["required"] == list(KNOBS)
        assert one["properties"] == {
            "data_ratio": {"type": "number", "minimum": 0, "maximum": 1},
            "hole_ratio": {"type": "number", "minimum": 0, "maximum": 0.5},
            "wait_ratio": {"type": "number", "minimum": 0, "maximum": 1},
        }
    objects = [schema, schema["properties"]["config"], sizes, *sizes["properties"].values()]
    assert all(o["type"] == "object" and o["additionalProperties"] is False for o in objects)


hundredths = st.integers(0, 100).map(lambda n: n / 100)
config_spaces = st.lists(st.integers(3, 10), min_size=1, max_size=8, unique=True).map(
    lambda sizes: boards(*sorted(sizes))
)


@st.composite
def configs_on_hundredths(draw: st.DrawFn) -> tuple[Space, EnvConfig]:
    space = draw(config_spaces)
    cuts = sorted(
        draw(st.lists(st.integers(0, 100), min_size=len(space.names) - 1, max_size=len(space.names) - 1))
    )
    shares = [(b - a) / 100 for a, b in zip([0, *cuts], [*cuts, 100], strict=True)]
    sizes = {
        size: (share, draw(st.integers(0, 50)) / 100, draw(hundredths))
        for size, share in zip(map(int, space.names), shares, strict=True)
    }
    return space, env_config(sizes)


storable_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=MAX_RATIONALE)


@repeatable
@given(configs_on_hundredths(), storable_text)
def test_a_config_survives_the_way_through_its_answer_text(drawn: tuple[Space, EnvConfig], rationale: str):
    space, config = drawn
    text = answer_text(rationale, config)
    previous = env_config({size: (1 / len(space.names), 0.1, 0.1) for size in map(int, space.names)})
    read, raw = parse_answer(text, SPACE)
    assert read == rationale
    assert project(raw, space, previous) == (config, ())


def test_an_answer_text_is_the_compact_json_of_the_schema():
    text = answer_text('say "more"', env_config({3: (0.25, 0.3, 0), 10: (0.75, 0.2, 1)}))
    assert text == (
        '{"rationale":"say \\"more\\"","config":{"sizes":'
        '{"3":{"data_ratio":0.25,"hole_ratio":0.30,"wait_ratio":0.00},'
        '"10":{"data_ratio":0.75,"hole_ratio":0.20,"wait_ratio":1.00}}}}'
    )


def test_text_around_the_json_does_no_harm():
    plain = parse_answer(answer(), SPACE)
    assert plain == ("why", {"sizes": GOOD})
    assert parse_answer(f"Sure, here it is:\n```json\n{answer()}\n```\nGood luck!", SPACE) == plain
    assert parse_answer(f"I think {{3x3}} is hard.\n```json\n{answer()}\n``` {{done}}", SPACE) == plain
    thought = '<think>maybe {"sizes": {"3": {}}} or {"config": 1}</think>'
    assert parse_answer(f"{thought}{answer()}", SPACE) == plain


def test_a_rationale_is_cut_to_its_length_and_may_be_missing_or_no_text():
    assert parse_answer(answer(rationale="x" * 1000), SPACE)[0] == "x" * MAX_RATIONALE
    assert parse_answer(answer(rationale=["no", "text"]), SPACE)[0] == ""
    assert parse_answer('{"config": {"sizes": {}}}', SPACE)[0] == ""


def test_a_legal_config_is_left_as_it_is():
    config, changes = projected(GOOD)
    assert config.model_dump(mode="json") == {"sizes": GOOD}
    assert changes == ()


def test_ratios_out_of_range_are_clamped_and_each_is_recorded():
    config, changes = projected(
        {
            "3": {"data_ratio": 7, "hole_ratio": 0.9, "wait_ratio": 1.5},
            "5": {"data_ratio": -3, "hole_ratio": 0, "wait_ratio": -0.25},
        }
    )
    assert config == env_config({3: (1, 0.4, 1), 5: (0, 0.2, 0)})
    assert changes == (
        "3x3 data_ratio 7 was clamped to 0..1",
        "3x3 hole_ratio 0.9 was clamped to 0.2..0.4",
        "3x3 wait_ratio 1.5 was clamped to 0..1",
        "5x5 data_ratio -3 was clamped to 0..1",
        "5x5 hole_ratio 0 was clamped to 0.2..0.4",
        "5x5 wait_ratio -0.25 was clamped to 0..1",
    )


def test_a_map_size_outside_of_the_space_is_dropped():
    config, changes = projected(GOOD | {"9": GOOD["5"]})
    assert config.model_dump(mode="json") == {"sizes": GOOD}
    assert changes == ("map size '9' is not in [3, 5] and was dropped",)


@pytest.mark.parametrize("alias", ["03", "3.0", " 3", "٣", "３", "+3", "3x3", "three", ""])
def test_only_the_plain_number_names_a_map_size(alias: str):
    config, changes = projected({alias: GOOD["3"], "5": GOOD["5"]})
    assert config.strata["3"]["hole_ratio"] == DEFAULT.strata["3"]["hole_ratio"]
    assert changes[0] == f"map size {alias!r} is not in [3, 5] and was dropped"


@pytest.mark.parametrize("value", [None, "0.9", True, False, [0.9], {"value": 0.9}], ids=repr)
@pytest.mark.parametrize("knob", KNOBS)
def test_a_knob_that_is_missing_or_no_number_keeps_its_previous_value(knob: str, value: object):
    config, changes = projected(changed("5", **{knob: value}))
    old = DEFAULT.strata["5"][knob]
    assert changes[0] == f"5x5 {knob} was missing or no number, the previous {old:g} was kept"
    if knob != "data_ratio":
        assert config.strata["5"][knob] == old
        assert len(changes) == 1
    assert_legal(config, SPACE)


@pytest.mark.parametrize("entry", [None, 3, "all", [GOOD["5"]]], ids=repr)
def test_a_size_that_is_no_object_keeps_its_previous_knobs(entry: object):
    config, changes = projected({"3": GOOD["3"], "5": entry})
    assert config.strata["5"].knobs == {"hole_ratio": 0.3, "wait_ratio": 0.25}
    assert [c.split(" was ")[0] for c in changes[:3]] == [
        "5x5 data_ratio",
        "5x5 hole_ratio",
        "5x5 wait_ratio",
    ]


def test_a_size_that_the_previous_config_did_not_have_falls_back_to_nothing_of_it():
    config, _ = project({"sizes": {"3": GOOD["3"]}}, SPACE, env_config({3: (1, 0.3, 0.5)}))
    assert config == env_config({3: (1, 0.25, 0.5), 5: (0, 0.2, 0)})


def test_shares_are_scaled_to_sum_to_one():
    config, changes = projected(
        {
            size: knobs | {"data_ratio": share}
            for (size, knobs), share in zip(GOOD.items(), (0.9, 0.3), strict=True)
        }
    )
    assert [c.data_ratio for c in config.strata.values()] == [0.75, 0.25]
    assert changes == ("data_ratio summed to 1.2 and was scaled to 1",)


def test_shares_that_are_all_zero_are_an_error():
    with pytest.raises(AnswerError, match="every data_ratio is 0"):
        projected({size: knobs | {"data_ratio": 0} for size, knobs in GOOD.items()})


@repeatable
@given(
    configs_on_hundredths(),
    st.dictionaries(
        st.integers(3, 10).map(str), st.fixed_dictionaries(dict.fromkeys(KNOBS, st.floats(-2, 2))), max_size=8
    ),
)
def test_projecting_twice_changes_nothing_more(drawn: tuple[Space, EnvConfig], raw: dict):
    space, previous = drawn
    try:
        once, _ = project({"sizes": raw}, space, previous)
    except AnswerError:
        return
    assert_legal(once, space)
    assert project(once.model_dump(mode="json"), space, previous) == (once, ())


HOSTILE = {
    "nothing": "",
    "no object": "I would rather not.",
    "braces the wrong way round": "}{",
    "an open brace": '{"rationale": "',
    "two objects": answer() + answer(),
    "deep lists": '{"config":' + "[" * 19_000 + "}",
    "a size nested deeply": '{"config":{"sizes":{"3":' + "[" * 400 + "]" * 400 + ',"5":1}}}',
    "a field nested deeply": '{"config":{"sizes":{"3":1}},"x":' + '{"x":' * 200 + "1" + "}" * 200 + "}",
    "NaN": answer(changed("3", hole_ratio=float("nan"))),
    "infinity": answer(changed("3", hole_ratio=float("-inf"))),
    "a number that overflows": answer().replace("0.75", "1e999"),
    "a map size twice": '{"config":{"sizes":{"3":{},"3":{}}}}',
    "a knob twice": answer().replace('"wait_ratio"', '"hole_ratio"'),
    "config twice": '{"config":{"sizes":{}},"config":{"sizes":{}}}',
    "half a surrogate pair in the rationale": answer(rationale="\ud800"),
    "half a surrogate pair as a map size": answer(GOOD | {"\udfff": 1}),
    "half a surrogate pair as text of a knob": answer(changed("3", hole_ratio="\ud800")),
    "a good answer that is too long": answer(rationale="x" * MAX_TEXT),
    "a config that is a list": '{"config": [1, 2]}',
    "sizes that are a list": '{"config": {"sizes": [1, 2]}}',
    "a config that is missing": '{"rationale": "x"}',
    "code": '__import__("os").system("false") or {}',
    "a trailing comma": '{"config": {"sizes": {},}}',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_text_is_an_answer_error(text: str):
    with pytest.raises(AnswerError) as refused:
        parse_answer(text, SPACE)
    assert 0 < len(str(refused.value)) < 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("answers")


def read_and_store(text: str, folder) -> None:
    """What a stage does with an answer: read it, project it, store it, read it back."""
    try:
        rationale, raw = parse_answer(text, SPACE)
        config, changes = project(raw, SPACE, DEFAULT)
    except AnswerError:
        return
    assert_legal(config, SPACE)
    proposal = Proposal(stage=0, engineer="base", variant="V1", config=config)
    proposal = proposal.model_copy(update={"rationale": rationale, "proposed": raw, "changes": changes})
    write_json(folder / "proposal.json", proposal)
    stored = (folder / "proposal.json").read_bytes()
    assert Proposal.model_validate_json(stored) == proposal
    json.loads(stored, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_raw_control_characters_in_a_text_are_read(folder):
    text = answer(rationale="a@b").replace("@", "\x00\n\t\x1b")
    assert parse_answer(text, SPACE) == ("a\x00\n\t\x1bb", {"sizes": GOOD})
    read_and_store(text, folder)


fragments = st.sampled_from(
    [
        '{"config":{"sizes":',
        '"3":',
        '{"data_ratio":',
        "1e400",
        "NaN",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        '"',
        "\\ud800",
        "-0.0",
        "0.5",
        "٣",
    ]
)


@settings(repeatable, max_examples=300)
@given(st.text(st.characters()) | st.lists(fragments, max_size=30).map("".join))
def test_any_text_is_refused_or_becomes_a_legal_config_that_can_be_stored(folder, text: str):
    read_and_store(text, folder)
