import base64
import html
import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

from engineer.behaviour import proposal_behaviour
from engineer.gate import BASE_POLICY, decide
from engineer.proposal import Attempt, Proposal
from envgen.breakdown import Difference, paired_difference
from envgen.config import EnvConfig
from envgen.dataset import write_table
from envgen.errors import RunDirectoryError
from envgen.family import Source
from envgen.files import write_json
from envgen.mapf.config import BoardsConfig
from envgen.mapf.problem import Instance
from envgen.mapf.prompts import answer
from envgen.mapf.sampler import sample
from envgen.mapf.verifier import FailureCategory, verify
from envgen.plain import PlainInstance
from envgen.sampling import sample as sample_any
from infra.analysis.formats import interval, percent, points, points_interval
from infra.analysis.report import charts, examples
from infra.analysis.report.build import write_report
from infra.analysis.report.text import headline
from infra.config.preset import Preset, load_preset, parse_override
from infra.runs.results import CurriculumResults, StageResult, TrainingSummary
from infra.runs.run import new_curriculum
from infra.runs.steps import stage_directory
from policy.grpo.train_log import TRAIN_LOG_SCHEMA
from policy.rollouts import Rollout, breakdown_of, write_rollouts

HOSTILE = "<script>alert(1)</script><img src=https://evil.example/x onerror=alert(2)>\"'></pre></style>"
SIZES = ("3", "4", "5")
TINY = load_preset("tiny")
VOID = {"meta", "br", "img", "link", "input", "hr", "base"}


def env_config(shares: dict[str, float], hole_ratio: float = 0.2) -> EnvConfig:
    return EnvConfig.model_validate(
        {
            "sizes": {
                size: {"data_ratio": share, "hole_ratio": hole_ratio, "wait_ratio": 0.25}
                for size, share in shares.items()
            }
        }
    )


EMBEDDED = "data:image/svg+xml;base64,"
EVEN = env_config({"3": 0.5, "4": 0.25, "5": 0.25})
MOVED = env_config({"4": 0.4, "5": 0.35, "6": 0.25}, hole_ratio=0.3)


@pytest.fixture(scope="module")
def validation() -> list[Instance]:
    return sample(
        BoardsConfig.of(env_config(dict.fromkeys(SIZES, 1 / 3))), 45, agents=2, seed=3, purpose="validation"
    )[0]


def broken(instance: Instance, kind: int) -> str:
    """An answer that is wrong in one of five ways; not every way is possible on every board."""
    first, second = instance.solution.plan
    size = instance.problem.size
    return [
        f"I cannot. {HOSTILE}",
        answer(((*first, (size, 0)), second)),
        answer((first[:1], second)),
        answer((first, first)),
        answer(((*first[:-1], *instance.problem.holes[:1]), second)),
    ][kind]


def rollouts_of(instances: list[Instance], correct: int) -> list[Rollout]:
    """The first `correct` of every ten answers are optimal, the others wrong in turn."""
    texts = [
        answer(i.solution.plan) if n % 10 < correct else f"{HOSTILE}\n{broken(i, n % 5)}"
        for n, i in enumerate(instances)
    ]
    return [
        Rollout(
            instance=i,
            completion=text,
            completion_tokens=len(text) // 4,
            truncated=n % 10 == 9,
            verdict=verify(i, text),
        )
        for n, (i, text) in enumerate(zip(instances, texts, strict=True))
    ]


def gain(before: list[Rollout], after: list[Rollout]) -> Difference:
    return paired_difference(*(np.array([r.verdict.valid for r in rollouts]) for rollouts in (before, after)))


def proposal(stage: int, config: EnvConfig, **changes: object) -> Proposal:
    return Proposal(stage=stage, engineer="checkpoint", variant="V6", config=config, **changes)


def stage_result(
    stage: int,
    config: EnvConfig,
    start: list[Rollout],
    after: list[Rollout],
    proposed: Proposal,
    preset: Preset = TINY,
) -> StageResult:
    change, earlier = gain(start, after), EVEN if stage else None
    found = breakdown_of(preset.task, after)
    changes = {preset.space.names[1]: change}
    return StageResult(
        stage=stage,
        config=config,
        training=TrainingSummary(
            steps=20, seconds=61.0, completion_tokens=12_345, mean_reward=0.5, zero_variance_share=0.25
        ),
        breakdown=found,
        valid_gain=change,
        optimal_gain=change,
        gate=decide("off", stage, BASE_POLICY, change, 1.0, change if preset.space.best else None),
        proposal=proposed,
        behaviour=proposal_behaviour(
            preset.space, earlier, config, proposed.config, found, change, changes, proposed.rationale
        ),
        seconds={"train": 61.0, "evaluate": 20.0},
        tokens={"training": 12_345, "evaluation": 655},
        finished="2026-01-02T03:04:05+00:00",
        code="0.1.0+abc",
        machine="Linux x86_64, 2 cores",
    )


def write_log(path: Path, steps: int = 20) -> None:
    columns = {name: np.linspace(0, 1, steps) for name in TRAIN_LOG_SCHEMA.names} | {
        name: np.arange(1, steps + 1) for name in ("step", "completion_tokens")
    }
    strata = pa.array([[]] * steps, TRAIN_LOG_SCHEMA.field("strata").type)
    write_table(path, pa.table({**columns, "strata": strata}).cast(TRAIN_LOG_SCHEMA))


def write_run(
    run: Path,
    instances: list[Instance],
    corrects: tuple[int, ...],
    proposals: tuple[Proposal, ...] | None = None,
) -> Path:
    """A run directory with one stage per entry of `corrects`."""
    proposals = proposals or tuple(
        proposal(stage, MOVED, rationale="more 4x4") for stage in range(len(corrects))
    )
    afters = [rollouts_of(instances, correct) for correct in corrects]
    return write_stages(run, TINY, rollouts_of(instances, 3), afters, proposals, EVEN)


def write_stages(
    run: Path,
    preset: Preset,
    start: list[Rollout],
    afters: list[list[Rollout]],
    proposals: tuple[Proposal, ...],
    config: EnvConfig,
) -> Path:
    stages = []
    for stage, (after, proposed) in enumerate(zip(afters, proposals, strict=True)):
        write_rollouts(
            stage_directory(run, stage) / "rollouts.parquet", after, preset.prompt_style, preset.family
        )
        write_log(stage_directory(run, stage) / "train_log.parquet")
        stages.append(stage_result(stage, config, start, after, proposed, preset))
        config = proposed.config
    engineer = preset.engineer.model_copy(update={"variant": "V6"})
    made_by = preset.model_copy(update={"seed": 7, "engineer": engineer})
    write_json(run / "curriculum.json", new_curriculum("first", made_by))
    write_json(run / "results.json", results_of(start, stages, preset))
    return run


def results_of(start: list[Rollout], stages: list[StageResult], preset: Preset = TINY) -> CurriculumResults:
    names = {
        "curriculum": "first",
        "preset": preset.name,
        "engineer": "checkpoint",
        "variant": "V6",
        "seed": 7,
    }
    return CurriculumResults(**names, start=breakdown_of(preset.task, start), stages=tuple(stages))


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


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, validation: list[Instance]) -> Page:
    noted = {
        "started": datetime(2026, 1, 2, tzinfo=UTC),
        "seconds": 1.5,
        "prompt_tokens": 15,
        "completion_tokens": 6,
    }
    unread = Attempt(text=HOSTILE, finish_reason="length", error=f"not JSON: {HOSTILE}", **noted)
    attempts = (unread, Attempt(text='{"sizes": {}}', finish_reason="stop", **noted))
    proposals = (
        proposal(
            0,
            MOVED,
            rationale=f"Drop 3x3.\n{HOSTILE}",
            prompt=f"Failures: {HOSTILE}",
            attempts=attempts,
            changes=("shares divided by 1.2",),
        ),
        proposal(1, MOVED, rationale="", fallback=f"no answer could be read: {HOSTILE}"),
    )
    return report(write_run(tmp_path_factory.mktemp("run"), validation, (5, 4), proposals))


def test_the_page_is_one_file_without_scripts_or_anything_from_elsewhere(page: Page):
    assert {tag for tag, _ in page.tags}.isdisjoint(
        {"script", "link", "iframe", "object", "embed", "base", "form"}
    )
    references = [
        value
        for _, attributes in page.tags
        for name, value in attributes.items()
        if name in {"src", "href", "xlink:href", "srcset", "action", "data"}
    ]
    assert references
    assert all(value and value.startswith(("#", EMBEDDED)) for value in references)
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert not re.search(r"url\((?!#)|@import", page.source)
    assert not page.unclosed


def test_model_text_is_shown_as_text(page: Page):
    assert page.source.count("<script") == 0
    assert f"Drop 3x3.\n{HOSTILE}" in page.text
    assert f"not JSON: {HOSTILE}" in page.text
    assert f"Failures: {HOSTILE}" in page.text
    assert f"no answer could be read: {HOSTILE}" in page.text
    assert f"I cannot. {HOSTILE}" in page.text


def test_what_rounds_to_zero_has_one_sign():
    assert [points(value) for value in (-0.0004, 0.0004, -0.0006, 0.02)] == ["+0.0", "+0.0", "−0.1", "+2.0"]


def test_every_drawing_is_well_formed_and_ids_are_unique(page: Page):
    assert len(page.charts) == 2 + len(SIZES) + 1 + 1 + 2 * 2
    replays = [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page.source, re.DOTALL)]
    assert len(replays) == page.replays
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_all_that_is_counted_of_a_map_size_stands_in_the_table(page: Page, validation: list[Instance]):
    table = page.source.partition('<section id="strata">')[2].partition("</section>")[0]
    names = (
        "valid",
        "optimal",
        "valid where a wait is needed",
        "valid where none is",
        "arrived",
        "legal share",
    )
    assert re.findall("<td>([a-z ]+)</td>", table) == list(names) * len(SIZES)
    for correct in (3, 5, 4):
        for part in breakdown_of(TINY.task, rollouts_of(validation, correct)).strata.values():
            waits, moves = part.rates("wait_required") or (None, None)
            for rate in (
                part.valid_rate,
                part.optimal_rate,
                waits,
                moves,
                part.term_rate("arrived"),
                part.term_rate("legal_share"),
            ):
                assert rate is not None
                assert f'<td>{percent(rate.value)}<span class="ci">{interval(rate)}' in table


def test_every_stage_map_size_and_category_appears(page: Page):
    for size in (*SIZES, "6"):
        assert f"{size}x{size}" in page.text
    for stage in (0, 1):
        assert f"after stage {stage}" in page.text
    for category in FailureCategory:
        assert category.value.replace("_", " ") in page.text
    for fact in (
        "first",
        "tiny",
        "checkpoint",
        "V6",
        "45\u00a0instances",
        "no stage was run on it so far",
        "fallback",
        "shares divided by 1.2",
        "2\u00a0attempts",
    ):
        assert fact in page.text
    assert "envwright run tiny --engineer checkpoint --variant V6 --stages 2 --seed 7" in page.text


def test_a_proposal_shows_old_and_new_values_of_what_it_changed(page: Page):
    assert re.search(r'class="changed"><s>25\u00a0% →</s> 40\u00a0%</td>', page.source)
    assert re.search(r'class="changed"><s>50\u00a0% →</s> none</td>', page.source)
    assert "The config stays as it is" in page.text


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


def test_the_behaviour_of_each_proposal_stands_in_a_table_with_units(page: Page, validation: list[Instance]):
    gains = [gain(rollouts_of(validation, 3), rollouts_of(validation, correct)) for correct in (5, 4)]
    # EVEN to MOVED: 50 % of 3x3 go, 4x4 gains 15 points, 5x5 10, and 6x6, not evaluated, comes with 25; holes
    # of 4x4 and 5x5 are 10 points up.
    assert measures(page) == {
        "Edit of the shares|points, sum over map sizes, 0 to 200": ["100.0", "0.0"],
        "Edit of the hole ratios|points, sum over map sizes": ["20.0", "0.0"],
        "Edit of the wait ratios|points, sum over map sizes": ["0.0", "0.0"],
        "Map sizes left as they were|of those trained on": ["0 of 3", "3 of 3|4x4, 5x5, 6x6"],
        "Map sizes that worked and were left|of those that worked": ["0 of 1", "1 of 1|4x4"],
        "Data on sizes under 5 % valid|stage → proposed": ["0 % → 0 %", "0 % → 0 %"],
        "Data on sizes over 95 % valid|stage → proposed": ["0 % → 0 %", "0 % → 0 %"],
        "Signal gained|−1 to 1": ["–", "none moved"],
        "Agreement with the failures|−1 to 1": ["–", "–"],
        "Valid rate against the policy before|points": [
            f"{points(g.value)}|{points_interval(g)}".replace("\u00a0", " ") for g in gains
        ],
        "Edit taken back after a drop|−1 to 1": ["no drop", "no drop"],
        "Rationale says what is true|of its checkable claims": ["no checkable claim", "no checkable claim"],
    }


def test_a_drop_is_shown_with_how_much_of_the_edit_before_it_was_taken_back(
    tmp_path: Path, validation: list[Instance]
):
    proposals = (proposal(0, MOVED), proposal(1, EVEN))
    shown = measures(report(write_run(tmp_path, validation, (3, 1), proposals)))
    assert shown["Edit taken back after a drop|−1 to 1"] == ["no drop", "+1.00"]


def test_a_stage_that_loses_optimal_answers_and_shows_no_drop_of_valid_ones_says_so(
    page: Page, tmp_path: Path, validation: list[Instance]
):
    fell = report(write_run(tmp_path, validation, (1,)))
    assert "no drop is shown of valid; optimal fell" in fell.text
    assert "Optimal against that, points" in page.text
    assert "optimal fell" not in page.text


def test_the_false_claims_of_a_rationale_are_marked_under_it(tmp_path: Path, validation: list[Instance]):
    proposals = (
        proposal(0, MOVED, rationale=f"More data for 4x4, 5x5 and 9x9; 3x3 100% valid: more data. {HOSTILE}"),
        proposal(1, MOVED, rationale="4x4: as it is."),
        proposal(2, MOVED, rationale="The config is fixed."),
        proposal(3, MOVED),
    )
    page = report(write_run(tmp_path, validation, (5, 5, 5, 5), proposals))
    assert re.findall(r"Says what is true: ([^<]+)</p>", page.source) == [
        "2 of 5\u00a0claims. Contradicted by the numbers:",
        "1 of 1\u00a0claim",
        "no checkable claim",
    ]
    [false] = re.findall(r'<ul class="notes false">(.*?)</ul>', page.source)
    assert [html.unescape(claim) for claim in re.findall("<li>(.*?)</li>", false)] == [
        "'9x9': no such map size",
        "'3x3 more data': 0.50 → 0.00",
        "'3x3 100% valid': 67% valid",
    ]
    assert measures(page)["Rationale says what is true|of its checkable claims"] == [
        "2 of 5 claims",
        "1 of 1 claim",
        *["no checkable claim"] * 2,
    ]


def test_the_page_says_when_in_how_long_and_on_what_it_was_made(page: Page):
    facts = dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd></div>", page.source))
    assert facts["Finished"] == "2026-01-02 03:04:05 UTC"
    assert facts["Version"] == "0.1.0+abc"
    assert facts["Machine"] == "Linux x86_64, 2 cores"
    stages = page.source.count("<th>after stage")
    assert facts["Tokens"] == f"{13 * stages / 2:.0f}k"


def test_what_was_set_stands_in_the_command_and_makes_the_same_preset(
    tmp_path: Path, validation: list[Instance]
):
    given = {
        "trl.learning_rate": 0.002,
        "default_config.sizes.3.hole_ratio": 0.25,
        "engineer.gate": "rollback",
    }
    preset = load_preset("tiny", given)
    start = rollouts_of(validation, 3)
    run = write_stages(tmp_path, preset, start, [start], (proposal(0, MOVED),), EVEN)
    command = shlex.split(re.findall(r"<pre>(envwright run [^\n]*)", html.unescape(report(run).source))[0])
    settings = [command[place + 1] for place, word in enumerate(command) if word == "--set"]
    assert load_preset("tiny", dict(map(parse_override, settings))) == preset
    assert len(settings) == 3
    assert command[-2:] == ["--name", "first"]


def test_every_link_of_the_contents_leads_to_a_section(page: Page):
    links = [attributes["href"] or "" for tag, attributes in page.tags if tag == "a"]
    assert len(links) == 9
    assert {link.removeprefix("#") for link in links} <= {attributes.get("id") for _, attributes in page.tags}


def test_claims_that_were_not_checked_are_left_out(tmp_path: Path, validation: list[Instance]):
    run = write_run(tmp_path, validation, (5,))
    stored = json.loads((run / "results.json").read_text())
    for stage in stored["stages"]:
        del stage["behaviour"]["claims"]
    (run / "results.json").write_text(json.dumps(stored))
    page = report(run)
    assert "Says what is true" not in page.text
    assert measures(page)["Rationale says what is true|of its checkable claims"] == ["–"]


def test_the_budget_of_each_map_size_is_drawn_for_each_stage_and_for_what_is_next(page: Page):
    drawn = page.charts["Share of the data per map size by stage"]
    labels = [text.strip() for text in drawn.itertext() if text.strip()]
    assert [label for label in labels if label.startswith(("stage", "proposed"))] == [
        "stage 0",
        "stage 1",
        "proposed, not run",
    ]
    assert [label for label in labels if label.startswith("3x3")] == ["3x3 50\u00a0%"]
    assert [label for label in labels if label.startswith("4x4")] == [
        "4x4 25\u00a0%",
        "4x4 40\u00a0%",
        "4x4 40\u00a0%",
    ]


def test_twelve_failures_of_the_last_stage_are_replayed(page: Page):
    assert page.replays == 12
    assert re.search(r"12 of the 2\d\u00a0failures after stage 1", page.text)


def test_the_same_run_gives_the_same_page(tmp_path: Path, validation: list[Instance]):
    run = write_run(tmp_path, validation, (5,))
    first = write_report(run).read_bytes()
    assert write_report(run).read_bytes() == first
    assert [path.name for path in run.iterdir() if "partial" in path.name] == []


def test_a_single_stage_without_a_training_log_has_no_training_chart(
    tmp_path: Path, validation: list[Instance]
):
    run = write_run(tmp_path, validation, (5,))
    (stage_directory(run, 0) / "train_log.parquet").unlink()
    page = report(run)
    assert "over one stage:" in page.text
    assert "Mean reward by step" not in page.text
    assert "0.50 in the last fifth" in page.text


@pytest.mark.parametrize(("correct", "shown"), [(10, 0), (9, 4)])
def test_few_failures_are_all_replayed(tmp_path: Path, validation: list[Instance], correct: int, shown: int):
    page = report(write_run(tmp_path, validation, (correct,)))
    assert page.replays == shown
    assert ("there is no failure to show" in page.text) == (shown == 0)


def test_chosen_failures_differ_and_do_not_depend_on_their_order(validation: list[Instance]):
    rollouts = rollouts_of(validation, 0)
    chosen = examples.choose(TINY.space, rollouts, 12)
    assert chosen == examples.choose(TINY.space, rollouts[::-1], 12)
    assert {r.instance.stratum for r in chosen} == set(SIZES)
    assert {r.verdict.category for r in chosen} == {r.verdict.category for r in rollouts}


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.02, 0.2, "+11.0\u00a0points, 95\u00a0% interval [+2.0,\u00a0+20.0]."),
        (-0.02, 0.2, "which includes zero: no gain is shown."),
        (-0.2, -0.05, ": a loss."),
    ],
)
def test_the_headline_claims_no_more_than_the_interval_allows(
    validation: list[Instance], low: float, high: float, said: str
):
    start, after = rollouts_of(validation, 3), rollouts_of(validation, 5)
    stage = stage_result(0, EVEN, start, after, proposal(0, MOVED)).model_copy(
        update={"valid_gain": Difference(value=(low + high) / 2, low=low, high=high)}
    )
    assert headline(results_of(start, [stage])).endswith(said)


def test_a_run_without_results_or_without_a_finished_stage_is_refused(
    tmp_path: Path, validation: list[Instance]
):
    with pytest.raises(RunDirectoryError, match=r"results\.json"):
        write_report(tmp_path)
    write_json(tmp_path / "results.json", results_of(rollouts_of(validation, 3), []))
    with pytest.raises(RunDirectoryError, match="no finished stage"):
        write_report(tmp_path)


SUMS = load_preset("micro-sums")
MORE_CARRIES = EnvConfig.model_validate(
    {"terms": {name: {"data_ratio": 0.5, "digits": 2.5, "carry_ratio": 1} for name in ("2", "3")}}
)


def added(instances: list[PlainInstance], correct: int) -> list[Rollout]:
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
        "Kinds of sum left as they were",
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


def test_the_report_imports_without_matplotlib():
    code = (
        "import sys, infra.analysis.report.build; sys.exit('matplotlib' in sys.modules or 'torch' in"
        " sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_base_policy_and_last_stage_answer_the_same_instances_side_by_side(
    validation: list[Instance], tmp_path: Path
):
    run = write_run(tmp_path, validation, (2, 6))
    assert 'id="gallery"' not in report(run).source, "nothing is shown of answers that are not there"
    start = rollouts_of(validation, 3)
    write_rollouts(run / "start" / "rollouts.parquet", start, TINY.prompt_style, TINY.family)
    gallery = report(run).source.partition('<section id="gallery">')[2].partition("</section>")[0]
    titles = [
        html.unescape(title).replace("\u00a0", " ") for title in re.findall('kind">(.*?)</h3>', gallery)
    ]
    n = [sum(3 <= number % 10 < 6 for number in range(45)), sum(number % 10 >= 6 for number in range(45))]
    n.append(45 - sum(n))
    assert titles == [
        f"Solved since: {n[0]} instances, 4 of them shown",
        f"Still failed: {n[1]} instances, 2 of them shown",
        f"Solved before and after: {n[2]} instances, 2 of them shown",
    ]
    assert gallery.count("<svg") == 2 * gallery.count("<figure") == 16
    sides = re.findall(r'<p class="label">(.*?)</p>', gallery)
    assert sides == ["base policy", "stage 1"] * 8
    assert gallery.count("✓ optimal") == 4 + 2 * 2, "after, and on both sides"


def test_a_claim_that_the_numbers_contradict_is_marked_in_the_quoted_words(
    validation: list[Instance], tmp_path: Path
):
    said = proposal(0, MOVED, rationale="Less data for 4x4. More data for 5x5; <b>bold</b>")
    source = report(write_run(tmp_path, validation, (5,), (said,))).source
    assert re.findall("<mark[^>]*>(.*?)</mark>", source) == ["Less data for 4x4"]
    assert ". More data for 5x5; &lt;b&gt;bold" in source
