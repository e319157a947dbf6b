import re
import time

import numpy as np
import pytest
from contexts import boards, breakdown, counts, env_config, repeatable, waits
from hypothesis import assume, given
from hypothesis import strategies as st

from engineer.answer import MAX_RATIONALE, SHARE_ROUNDING, answer_text, parse_answer, project
from engineer.claims import Claims, check_claims
from engineer.context import DesignContext
from engineer.lessons import random_context, with_labels
from engineer.teacher import teach
from envgen.breakdown import Counts
from envgen.family import Space
from envgen.mapf.space import usual_space

OLD = env_config({3: (0.4, 0.2, 0.5), 4: (0.3, 0.3, 0.5), 6: (0.3, 0.3, 0.25)})
NEW = env_config({3: (0.2, 0.2, 0.75), 4: (0.3, 0.3, 0.5), 6: (0.5, 0.2, 0.0)})


def part(valid: int, waiting: int, waiting_valid: int) -> Counts:
    """A hundred answers: half of the valid ones are optimal, the others conflicts."""
    failures = {**dict.fromkeys(SPACE.categories, 0), "conflict": 100 - valid}
    return waits(Counts(n=100, valid=valid, optimal=valid // 2, failures=failures), waiting, waiting_valid)


SPACE = boards(3, 4, 6)
SEEN = breakdown({3: part(78, 50, 30), 4: part(50, 40, 10), 6: part(20, 50, 5)})
"""Valid: 78, 50 and 20 %; where a wait is needed 60, 25 and 10 %; where none is 96, 67 and 30 %."""

FACTS = r"\d+%|\d+ parts? of data|\d\.\d\d"
"""In the rule's rationales, each a claim."""
spaces = st.sampled_from([usual_space(), boards(4), boards(3, 10, high=0.3), boards(*range(3, 11))])
seeds = st.integers(0, 2**32 - 1)


def said(rationale: str) -> Claims:
    return check_claims(SPACE, rationale, OLD, NEW, SEEN)


def made_up(seed: int, space: Space, labels: bool) -> DesignContext:
    rng = np.random.default_rng(seed)
    context = random_context(rng, space)
    return with_labels(context, rng) if labels else context


def taught(context: DesignContext) -> tuple[str, Claims]:
    """The rule's rationale, and its claims about the config as it is read from the rule's answer."""
    designed, rationale = teach(context)
    read, raw = parse_answer(answer_text(rationale, designed), context.space)
    assert read == rationale
    return rationale, claims_about(rationale, context, raw)


def claims_about(rationale: str, context: DesignContext, raw: dict) -> Claims:
    config = project(raw, context.space, context.current.config)[0]
    return check_claims(context.space, rationale, context.current.config, config, context.current.breakdown)


@repeatable
@given(seeds, spaces, st.booleans())
def test_every_claim_of_the_rule_is_true_and_each_map_size_has_some(seed: int, space: Space, labels: bool):
    context = made_up(seed, space, labels)
    rationale, found = taught(context)
    assert found.false == ()
    clauses = [re.findall(FACTS, clause) for clause in rationale.removesuffix(".").split(". ")]
    assert [len(facts) >= 4 for facts in clauses] == [True] * len(space.names)
    assert found.checked == sum(map(len, clauses))


@repeatable
@given(seeds, spaces, st.booleans(), st.data())
def test_one_wrong_number_is_caught(seed: int, space: Space, labels: bool, data: st.DataObject):
    context = made_up(seed, space, labels)
    designed, rationale = teach(context)
    place = data.draw(st.sampled_from(list(re.finditer(r"\d+(?=%)|\d\.\d\d", rationale))))
    if "." in place.group():
        number = data.draw(st.integers(0, 100).map(lambda percent: percent / 100))
        parts = (*context.current.config.strata.values(), *designed.strata.values())
        assume(number not in [round(value, 2) for part in parts for value in part.knobs.values()])
        wrong = f"{number:.2f}"
    else:
        wrong = str(data.draw(st.integers(0, 100).filter(lambda number: number != int(place.group()))))
    changed = rationale[: place.start()] + wrong + rationale[place.end() :]
    found = check_claims(space, changed, context.current.config, designed, context.current.breakdown)
    assert len(found.false) == 1, changed
    assert wrong in found.false[0]


@repeatable
@given(seeds, st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any))
def test_parts_of_the_data_are_held_against_the_shares(seed: int, parts: list[int]):
    context = made_up(seed, SPACE, labels=False)
    designed, rationale = teach(context)
    given = iter(parts)
    changed = re.sub(r"\d+(?= parts? of data)", lambda match: str(next(given)), rationale)
    found = check_claims(SPACE, changed, context.current.config, designed, context.current.breakdown)
    off = [
        abs(part / sum(parts) - share.data_ratio) > 2 * SHARE_ROUNDING
        for part, share in zip(parts, designed.strata.values(), strict=True)
    ]
    assert len(found.false) == sum(off)


@pytest.mark.parametrize(
    ("rationale", "count"),
    [
        ("More data for 6x6, which is rarely solved; less for 3x3, which is mostly solved.", 4),
        ("4x4 is solved about half of the time.", 1),
        ("3x3: 2 parts of the data waits 0.75; 6x6: 5 parts of data, holes at 0.2; 4x4 3 parts of data", 5),
        ("3x3 78% valid, waits 60%: less data, more waits. 4x4 50% valid, waits 25%: as it is.", 7),
        ("3x3: valid 78 %, optimal 39 %, conflict 22 %; 6x6 has 80% conflicts and 0% parse errors.", 5),
        ("3x3 has 60% valid where a wait is needed and 96% where none is.", 2),
        ("Less 3x3, more 6x6. Fewer holes and waits on 6x6.", 4),
        ("I raised the data share of 6×6, reduced waits of 6x6 from 25% to 0%, and cut 3x3 data to 0.2.", 3),
        ("3x3 and 6x6 are evaluated. 4x4 is kept as it is. Raise waits to 0.75 in 3x3.", 3),
        ("3x3: raise waits to 0.75, lower data to 20%.\n4x4 unchanged", 5),
        ("With waits at 0.5 4x4 stays as it is.", 2),
        ("6x6 20.4% valid", 1),
        ("3x3 is mostly solved, 3x3 is mostly solved.", 1),
    ],
)
def test_what_is_true_counts_once(rationale: str, count: int):
    assert said(rationale) == Claims(checked=count, false=())


@pytest.mark.parametrize(
    ("rationale", "false"),
    [
        ("3x3 rarely solved", "'3x3 rarely solved': 78% valid"),
        ("More data for 5x5, which is mostly solved.", "'5x5': no such map size"),
        ("4x4 is mostly valid", "'4x4 mostly valid': 50% valid"),
        ("3x3, 78% valid, is nearly always solved", "'3x3 nearly always solved': 78% valid"),
        ("4x4 and 6x6 are solved about half of the time", "'6x6 solved about half of the time': 20% valid"),
        ("less for 6x6", "'6x6 less data': 0.30 → 0.50"),
        ("More data for 4x4, less for 3x3.", "'4x4 more data': 0.30 → 0.30"),
        ("More waits for 3x3, fewer for 4x4.", "'4x4 fewer waits': 0.50 → 0.50"),
        ("3x3 78% valid, waits 96%", "'3x3 waits 96%': waits 60%"),
        ("3x3 79% valid", "'3x3 79% valid': 78% valid"),
        ("3x3 with waits 0.60", "'3x3 waits 0.60': 0.50 → 0.75"),
        ("3x3 has 52% left", "'3x3 52%': not a number of this map size"),
        ("4x4 10x10", "'10x10': no such map size"),
        ("4x4 is not solved, more data for 3x3", "'3x3 more data': 0.40 → 0.20"),
        ("3x3 78% valid: as it is", "'3x3 as it is': data 0.40 → 0.20, waits 0.50 → 0.75"),
    ],
)
def test_what_is_false_is_quoted_with_the_numbers(rationale: str, false: str):
    assert said(rationale).false == (false,)


@pytest.mark.parametrize(
    "rationale",
    [
        "",
        "The config is fixed.",
        "Drawn at random from the config space.",
        "Data to the map sizes nearest 50 % valid: 3x3 26 %, 4x4 25 %, 6x6 24 %.",
        "Keep the shares, they fit the failures.",
        "3x3 gets 9 parts of the data, 4x4 1 part of the data",
        "3x3: not 9 parts of data; 4x4: 3 parts of data; 6x6: 5 parts of data",
        "3x3: waits not at 0.6, holes of 3x3 to 4x4 0.9",
        "3x3 is not mostly solved, over 95% valid, and needs no more data.",
        "4x4 is not yet mostly solved; 4x4 aren't mostly solved; 4x4 is never nearly always solved",
        "3x3 does not need more data; 3x3 should not get more data; don't raise waits of 3x3",
        "3x3: more data than 4x4",
        "3x3 fails less than it did, with fewer conflicts; more often it waits",
        "3x3: more waits for larger maps. More data. 3x4",
        "4x4, as it is hard, counts",
    ],
)
def test_what_the_numbers_do_not_decide_is_no_claim(rationale: str):
    assert said(rationale) == Claims(checked=0, false=())


def test_levels_go_by_the_exact_rate():
    def rarely(valid: int) -> bool:
        seen = breakdown({3: counts(1_000, valid, 0)})
        return check_claims(SPACE, "3x3 is rarely solved", OLD, NEW, seen).false == ()

    assert [rarely(valid) for valid in (329, 330, 331)] == [True, False, False]


def test_without_answers_nothing_is_known_of_a_size():
    seen = breakdown({3: counts(0, 0, 0)})
    for name in ("3x3 0% valid", "3x3 rarely solved", "6x6 20% valid"):
        assert check_claims(SPACE, name, OLD, NEW, seen).false == (f"'{name}': not evaluated",)


def test_a_size_that_comes_had_nothing():
    found = check_claims(
        SPACE,
        "More data and waits for 4x4; 3x3: less data",
        env_config({3: (1, 0.2, 0.5)}),
        env_config({3: (0.5, 0.2, 0.5), 4: (0.5, 0.2, 0.5)}),
        SEEN,
    )
    assert found == Claims(checked=3, false=())


FRAGMENTS = [
    "9",
    "x",
    "3x3",
    "3x3 ",
    "3x3, ",
    "3x3: ",
    "more ",
    "more of the its ",
    "data, ",
    "data and ",
    "waits ",
    "valid, waits ",
    "9%",
    "9.",
    "0.0.",
    ": ",
    "not ",
    "[",
]
FRAGMENTS += [
    "3x3 mostly solved ",
    "3x3 more data ",
    "more data for 3x3, and ",
    "nearly all ",
    "1 %",
    "İ",
    "×3×",
    "{'3x3':[",
    "1" * 300 + "%",
    " ",
]


@pytest.mark.parametrize("fragment", FRAGMENTS)
@pytest.mark.parametrize("start", ["", "3x3 ", "more data for "])
def test_hostile_text_is_read_at_once(start: str, fragment: str):
    text = (start + fragment * MAX_RATIONALE)[:MAX_RATIONALE]
    before = time.process_time()
    found = said(text)
    assert time.process_time() - before < 0.25
    assert 0 <= found.true <= found.checked <= MAX_RATIONALE
    assert said(text * 1_000).checked <= MAX_RATIONALE, "what is beyond the limit is not read"


words = st.sampled_from(
    [
        "3x3",
        "4x4",
        "9x9",
        "6×6",
        "78",
        "%",
        "0.25",
        ".",
        ";",
        ":",
        ",",
        " ",
        "more",
        "less",
        "data",
        "waits",
        "valid",
        "mostly solved",
        "as it is",
        "for",
    ]
)


@repeatable
@given(
    st.one_of(
        st.text(max_size=MAX_RATIONALE),
        st.lists(words, max_size=80).map(" ".join),
        st.lists(words, max_size=80).map("".join),
    )
)
def test_any_text_is_read(text: str):
    found = said(text)
    assert 0 <= found.true <= found.checked
    assert Claims.model_validate_json(found.model_dump_json()) == found
