"""How numbers, changes of a config and the words of models are written."""

import re

import pytest
from report_page import env_config

from envgen.config import EnvConfig
from envgen.mapf.space import Options, space_of
from envgen.registry import EnvironmentSpec
from infra.formats import SPACE, duration, points, short_count
from infra.markdown import quiet
from infra.tables import config_changes

# As mdast-util-gfm-autolink-literal and marked detect bare addresses, in the source and in its text.
LINKS = [
    r"(?i)(?:https?|ftp)://[-.\w]+",
    r"(?i)www\.[-.\w]+",
    r"(?i)(?:mailto|xmpp):\S",
    r"[-.\w+]+@[-\w]+(?:\.[-\w]+)+",
]


@pytest.mark.parametrize(
    ("write", "number", "text"),
    [
        *((duration, time, text) for time, text in ((8.24, "8.2 s"), (99, "99 s"), (1_860, "31 min"))),
        *((duration, time, text) for time, text in ((8_640, "2.4 h"), (432_000, "5 days"))),
        *((points, value, text) for value, text in ((-0.0004, "+0.0"), (-0.0006, "−0.1"), (0.02, "+2.0"))),
        *(
            (short_count, n, text)
            for n, text in ((999, "999"), (1200, "1.2k"), (52_300, "52k"), (3.4e6, "3.4M"))
        ),
    ],
)
def test_numbers_are_short_and_have_their_unit(write, number: float, text: str):
    assert write(number) == text.replace(" ", SPACE)


def test_what_a_config_changes_is_said_in_words():
    space = space_of(Options(map_sizes=(3, 4, 10)))
    old, other = env_config({"3": 0.5, "4": 0.5}), env_config({"3": 1.0})
    assert config_changes(space, old, other).replace(SPACE, " ") == "3x3: data 50 % → 100 %; 4x4: left out"
    assert config_changes(space, other, old).replace(SPACE, " ") == "3x3: data 100 % → 50 %; 4x4: new"
    assert config_changes(space, old, old) == "nothing"
    largest = env_config({"10": 0.5, "3": 0.5})
    assert config_changes(space, old, largest) == "4x4: left out; 10x10: new", "in the order of the space"
    sums = EnvironmentSpec(name="sums").load().space
    parts = [{"2": {"data_ratio": 1, "digits": digits, "carry_ratio": 0.5}} for digits in (1, 2.5)]
    old, new = (EnvConfig.model_validate({"terms": part}) for part in parts)
    assert config_changes(sums, old, new) == "2 terms: digits 1 → 2.5", "a knob that is no share"


@pytest.mark.parametrize(
    "words",
    [
        "see https://evil.example/x?y=1",
        "see HTTP://evil.example",
        "ftp://evil.example",
        "WWW.evil.example",
        "write to ada@evil.example or mailto:ada@evil.example",
        "[here](https://evil.example)",
        "<https://evil.example>",
    ],
)
def test_an_address_in_the_words_of_a_model_is_no_link_and_stays_readable(words: str):
    markdown = quiet(words)
    text = re.sub(r"\\(?=[^\w\s])", "", markdown)
    assert not [link for link in LINKS for form in (markdown, text) if re.search(link, form)]
    assert text.replace("\u2060", "") == words


def test_control_characters_do_not_reach_markdown_and_lines_stay():
    assert quiet("a\x1b]0;x\x07\x00b\u202ec\nd") == "a \\]0;x  b c\nd"
