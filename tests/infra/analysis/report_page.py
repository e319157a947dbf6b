"""A report as a browser sees it."""

import base64
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

from infra.analysis.report.build import write_report

VOID = {"meta", "br", "img", "link", "input", "hr", "base"}
EMBEDDED = "data:image/svg+xml;base64,"


@dataclass
class Page(HTMLParser):
    """What a browser would see: tags with attributes, and the text of each element as it was opened."""

    source: str
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    text: str = ""
    unclosed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.unclosed.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.unclosed.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def charts(self) -> dict[str | None, ElementTree.Element]:
        """The drawing in each image, under what the image stands for."""
        images = [attributes for tag, attributes in self.tags if tag == "img"]
        return {
            image["alt"]: ElementTree.fromstring(
                base64.b64decode((image["src"] or "").removeprefix(EMBEDDED))
            )
            for image in images
        }

    @property
    def replays(self) -> int:
        return sum(tag == "figure" for tag, _ in self.tags)


def report(run: Path) -> Page:
    return Page(write_report(run).read_text(encoding="utf-8"))


def measures(page: Page) -> dict[str, list[str]]:
    """Name and unit -> the cells of a row of the behaviour table; `|` stands for a new line."""
    table = (
        page.source.partition('<section id="behaviour">')[2].partition("</table>")[0].partition("<tbody>")[2]
    )
    plain = [
        re.sub(r"<[^>]+>", "", re.sub(r"<(small|span)[^>]*>", "|", cell)).replace("\u00a0", " ")
        for cell in re.findall(r"<t[hd]>(.*?)</t[hd]>", table)
    ]
    starts = [index for index, cell in enumerate(re.findall(r"<(t[hd])>", table)) if cell == "th"]
    return {
        plain[start]: plain[start + 1 : end]
        for start, end in zip(starts, [*starts[1:], len(plain)], strict=True)
    }
