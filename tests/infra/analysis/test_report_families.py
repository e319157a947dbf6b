"""The report of a family that is not of boards."""

import re
from pathlib import Path

from made_up_runs import proposal, write_stages
from report_page import measures, report

from envgen.config import EnvConfig
from envgen.environment import Instance, Source
from envgen.sampling import sample as sample_any
from infra.analysis.report import charts
from infra.config.preset import load_preset
from policy.rollouts import Rollout

SUMS = load_preset("micro-sums")
MORE_CARRIES = EnvConfig.model_validate(
    {"terms": {name: {"data_ratio": 0.5, "digits": 2.5, "carry_ratio": 1} for name in ("2", "3")}}
)


def added(instances: list[Instance], correct: int) -> list[Rollout]:
    """The first `correct` of every ten sums are right, of the others every second is too large by one."""
    texts = [
        one.answer if n % 10 < correct else str(int(one.answer) + 1) if n % 2 else "I cannot."
        for n, one in enumerate(instances)
    ]
    verdicts = SUMS.task.judge(instances, texts)
    told = zip(instances, texts, verdicts, strict=True)
    return [
        Rollout(instance=one, completion=text, completion_tokens=3, truncated=False, verdict=verdict)
        for one, text, verdict in told
    ]


def test_the_report_of_another_family_has_its_words_and_none_of_boards(tmp_path: Path):
    sums, _ = sample_any(SUMS.task, SUMS.default_config, 40, Source(3))
    proposals = tuple(
        proposal(stage, MORE_CARRIES, rationale="More carries for 2 terms.") for stage in (0, 1)
    )
    run = write_stages(
        tmp_path, SUMS, added(sums, 3), [added(sums, 5), added(sums, 7)], proposals, SUMS.default_config
    )
    page = report(run)
    assert not page.unclosed
    shown = re.sub("<[^>]+>", " ", page.source.partition("<body>")[2]).lower()
    assert not re.findall(r"\b(?:map size|hole|wait|agent|board|grid|plan|goal|optimal)", shown)
    for fact in (
        "By kind of sum",
        "2 terms",
        "valid where a digit is carried",
        "close",
        "unreadable",
        "Edit of the digits",
        "2.5",
        "The commonest right answer, given to all questions, would be right for",
    ):
        assert fact in page.text
    assert measures(page)["Edit of the digits|sum over kinds of sum"] == ["1.00", "0.00"]
    assert measures(page)["Edit of the carry ratios|points, sum over kinds of sum"] == ["100.0", "0.0"]
    assert page.replays == 12
    assert len(re.findall(r"What is \d", page.text)) == 12, "there is no picture of a sum"
    assert [
        text
        for text in page.charts["Share of the data per kind of sum by stage"].itertext()
        if text.startswith("2 terms")
    ]


def test_strata_darken_however_many_there_are():
    for count in (1, 8, 9, 30):
        strata = [
            stratum.model_copy(update={"name": f"s{n}"})
            for n in range(count)
            for stratum in SUMS.space.strata[:1]
        ]
        found = charts.palette(SUMS.space.model_copy(update={"strata": tuple(strata)}))
        shades = [
            sum(int(found[f"stratum-{n}"][place : place + 2], 16) for place in (1, 3, 5))
            for n in range(count)
        ]
        assert shades == sorted(shades, reverse=True)
        assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in found.values())
