"""Runs whose answers and words are hostile, and their report as a browser sees it."""

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from xml.etree import ElementTree

from factories import rollout
from support.boards import boards_config

from envgen.mapf.problem import Instance
from envgen.mapf.prompts import answer
from infra.config.preset import load_preset
from infra.report.page import write_report
from infra.runs.run import Run
from policy.rollouts import Rollout

HOSTILE = "<script>alert(1)</script><img src=https://evil.example/x onerror=alert(2)>\"'></pre></style>"
TINY = load_preset("tiny")
EMBEDDED = "data:image/svg+xml;base64,"
VOID = {"meta", "br", "img", "link", "input", "hr", "base"}
EVEN = boards_config({3: (0.5, 0.2, 0.25), 4: (0.25, 0.2, 0.25), 5: (0.25, 0.2, 0.25)})
MOVED = boards_config({4: (0.4, 0.3, 0.25), 5: (0.35, 0.3, 0.25), 6: (0.25, 0.3, 0.25)})


def hostile_answers(instances: list[Instance], correct: int) -> list[Rollout]:
    """The first `correct` of every ten answers are optimal, the others wrong in one of five ways."""
    rollouts = []
    for n, instance in enumerate(instances):
        first, second = instance.solution.plan
        size, holes = instance.problem.size, instance.problem.holes[:1]
        plans = [(path, second) for path in ((*first, (size, 0)), first[:1], (*first[:-1], *holes))]
        wrong = ["I cannot.", *map(answer, [*plans, (first, first)])][n % 5]
        text = answer((first, second)) if n % 10 < correct else f"{HOSTILE}\n{wrong}"
        rollouts.append(rollout(instance, text, truncated=n % 10 == 9))
    return rollouts


@dataclass
class Page(HTMLParser):
    """What a browser would see: tags with attributes, and the text."""

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

    def section(self, name: str) -> str:
        """The source of a section."""
        return self.source.partition(f'<section id="{name}">')[2].partition("</section>")[0]

    @property
    def charts(self) -> dict[str | None, ElementTree.Element]:
        """The drawing in each image, by its alternative text."""
        images = [attributes for tag, attributes in self.tags if tag == "img"]
        sources = {image["alt"]: (image["src"] or "").removeprefix(EMBEDDED) for image in images}
        return {alt: ElementTree.fromstring(base64.b64decode(source)) for alt, source in sources.items()}


def report(run: Run) -> Page:
    return Page(write_report(run.directory).read_text(encoding="utf-8"))


MakeRun = Callable[..., Run]
