"""How numbers, changes of a config and the words of models are written."""

import re

import pytest
from support.boards import boards_config

from envgen.config import EnvConfig
from envgen.mapf.space import Options, space_of
from envgen.registry import EnvironmentSpec
from envgen.space import Space
from infra.formats import SPACE, duration, points, short_count
from infra.markdown import quiet
from infra.tables import changes

# As mdast-util-gfm-autolink-literal and marked detect bare addresses, in the source and in its text.
LINKS = [
    r"(?i)(?:https?|ftp)://[-.\w]+",
    r"(?i)www\.[-.\w]+",
    r"(?i)(?:mailto|xmpp):\S",
    r"[-.\w+]+@[-\w]+(?:\.[-\w]+)+",
]


@pytest.mark.parametrize(
    ("write", "texts"),
    [
        (duration, {8.24: "8.2 s", 99: "99 s", 1_860: "31 min", 8_640: "2.4 h", 432_000: "5 days"}),
        (points, {-0.0004: "+0.0", -0.0006: "−0.1", 0.02: "+2.0"}),
        (short_count, {999: "999", 1200: "1.2k", 52_300: "52k", 3.4e6: "3.4M"}),
    ],
)
def test_numbers_are_short_and_have_their_unit(write, texts: dict[float, str]):
    assert [write(number) for number in texts] == [text.replace(" ", SPACE) for text in texts.values()]


def test_the_numbers_of_two_configs_stand_side_by_side_in_the_order_of_the_space():
    def text(space: Space, *configs: EnvConfig) -> list[list[str]]:
        rows = changes(space, *configs).itertuples(index=False, name=None)
        return [[name, *(cell.text.replace(SPACE, " ") for cell in cells)] for name, *cells in rows]

    space = space_of(Options(map_sizes=(3, 4, 10)))
    old, new = (boards_config(dict.fromkeys(sizes, (0.5, 0.2, 0.25))) for sizes in ((3, 4), (10, 3)))
    knobs, none = ["20 %", "25 %"], "none"
    assert text(space, old, old) == [["3x3", "50 %", *knobs], ["4x4", "50 %", *knobs]]
    assert text(space, old, new) == [
        ["3x3", "50 %", *knobs],
        ["4x4", *(f"{number} → {none}" for number in ("50 %", *knobs))],
        ["10x10", *(f"{none} → {number}" for number in ("50 %", *knobs))],
    ]
    sums = EnvironmentSpec(name="sums").load().space
    parts = [{"2": {"data_ratio": 1, "digits": digits, "carry_ratio": 0.5}} for digits in (1, 2.5)]
    old, new = (EnvConfig.model_validate({"terms": part}) for part in parts)
    assert text(sums, old, new) == [["2 terms", "100 %", "1 → 2.5", "50 %"]], "a knob that is no share"


ADDRESSES = ["see https://evil.example/x?y=1", "see HTTP://evil.example", "ftp://evil.example"]
ADDRESSES += ["WWW.evil.example", "write to ada@evil.example or mailto:ada@evil.example"]
ADDRESSES += ["[here](https://evil.example)", "<https://evil.example>"]


@pytest.mark.parametrize("words", ADDRESSES)
def test_an_address_in_the_words_of_a_model_is_no_link_and_stays_readable(words: str):
    markdown = quiet(words)
    text = re.sub(r"\\(?=[^\w\s])", "", markdown)
    assert not [link for link in LINKS for form in (markdown, text) if re.search(link, form)]
    assert text.replace("\u2060", "") == words


def test_control_characters_do_not_reach_markdown_and_lines_stay():
    assert quiet("a\x1b]0;x\x07\x00b\u202ec\nd") == "a \\]0;x  b c\nd"
