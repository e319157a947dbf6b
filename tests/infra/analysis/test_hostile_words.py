"""What models write does nothing where it is shown: in Markdown and in pages."""

import re
from pathlib import Path

import pytest

from envgen.files import write_html
from infra.analysis.stage_view import quiet
from infra.runs.run import Run

# As mdast-util-gfm-autolink-literal and marked find bare addresses, in the source and in its text.
LINKS = [
    r"(?i)(?:https?|ftp)://[-.\w]+",
    r"(?i)www\.[-.\w]+",
    r"(?i)(?:mailto|xmpp):\S",
    r"[-.\w+]+@[-\w]+(?:\.[-\w]+)+",
]


@pytest.mark.parametrize(
    "words",
    [
        "see https://evil.example/x?y=1",
        "see HTTP://evil.example",
        "ftp://evil.example",
        "www.evil.example",
        "WWW.evil.example",
        "write to ada@evil.example or mailto:ada@evil.example",
        "[here](https://evil.example)",
        "<https://evil.example>",
    ],
)
def test_an_address_in_the_words_of_a_model_is_no_link_and_stays_readable(words: str):
    shown = quiet(words)
    text = re.sub(r"\\(?=[^\w\s])", "", shown)
    assert not [link for link in LINKS for form in (shown, text) if re.search(link, form)]
    assert text.replace("\u2060", "") == words


def test_control_characters_do_not_reach_markdown_and_lines_stay():
    assert quiet("a\x1b]0;x\x07\x00b\u202ec\nd") == "a \\]0;x  b c\nd"


def test_a_report_has_no_character_that_steers_a_terminal_or_the_direction_of_writing(tmp_path: Path):
    page = "<p>caf\u00e9 \u2212 \u00a0 \t\U0001f600</p>\n"
    run = Run(directory=tmp_path)
    run.write(Run.report, page + "a\x00b\x1b[31mc\x9b\x7f\rd\u202ee\u2066f")
    shown = run.path(Run.report).read_bytes().decode()
    assert shown == page + "a\ufffdb\ufffd[31mc\ufffd\ufffd\ufffdd\ufffde\ufffdf"
    write_html(tmp_path / "page.html", page)
    assert (tmp_path / "page.html").read_text() == page
