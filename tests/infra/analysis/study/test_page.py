"""The page of a study: right numbers and signs, the same bytes again, and nothing where the data is
damaged."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from study_rounds import SPACE as SPACE_OF_BOARDS
from study_rounds import SPEC, rising, small_sets, write

from envgen.errors import DataError
from envgen.files import write_json
from infra.analysis.formats import SPACE, p_value
from infra.analysis.study import page as writing
from infra.analysis.study.findings import PolicyFinding, find
from infra.analysis.study.page import write_page
from infra.analysis.study.records import SetName, read_round
from infra.analysis.study.spec import ArmGroup, StudySpec

PICTURES = [
    "budget-round-1.png",
    "budget-round-2.png",
    "curves-round-1.png",
    "curves-round-2.png",
    "effects.png",
    "optimal-round-1.png",
    "optimal-round-2.png",
    "pilot-round-1.png",
    "pilot-round-2.png",
]


def apart(policy: str, stage: int, name: SetName) -> int:
    """As `rising`, but random with the pilot ends three of ten above random, and fixed three above both."""
    return (
        rising(policy, stage, name) + 3 * policy.startswith("random+pilot") + 6 * policy.startswith("fixed")
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, sets = tmp_path_factory.mktemp("data"), small_sets()
    write(folder, SPEC, 1, sets=sets)
    write(folder, SPEC, 2, right=apart, sets=sets)
    (folder / "learned.md").write_text("Waits matter <more> & more.\n")
    (folder / "registration.md").write_text("We expect little.\n")
    (folder / "policies.md").write_text("Small ones.\n")
    return folder


@pytest.fixture(scope="module")
def written(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("output"), data, SPEC)


@pytest.fixture(scope="module")
def page(written: Path) -> str:
    return written.read_text().replace(SPACE, " ")


@pytest.fixture
def _undrawn(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(writing, "write_figures", lambda *told: None)


def rows(page: str, start: str) -> list[list[str]]:
    """The cells of the table rows that begin so."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith(f"| {start} |")
    ]


def test_the_page_says_when_on_what_and_how_its_rounds_were_run(page: str):
    told = {
        "finished": "2026-01-02 03:04:05 UTC",
        "machine": "Linux, 2 cores",
        "cost of the engineers": "–",
    }
    assert {name: rows(page, name)[0][1:] for name in told} == {name: [one] * 2 for name, one in told.items()}
    commands = [f"`envwright study small --round {number}`" for number in (1, 2)]
    assert rows(page, "run again with") == [["run again with", *commands]]


def test_the_headline_says_what_the_intervals_allow(page: str):
    lines = [line for line in page.splitlines() if line.startswith("- Round")]
    assert re.match(
        r"- Round 1: `checkpoint-V6` \(50.0 %\) is \*\*not distinguishable from\*\* `random` \(43.3 %\):"
        r" \+6.7 points, .*\[−\d.*, \+\d",
        lines[0],
    )
    assert lines[1].startswith(
        "- Round 1: `checkpoint-V6` (50.0 %) is **not distinguishable from** `fixed` (40.0 %): +10.0 points"
    )
    assert lines[2].startswith(
        "- Round 2: `random+pilot` (70.0 %) is **above** `random` (40.0 %): +30.0 points, 95 % interval [+"
    )
    assert lines[3].startswith(
        "- Round 2: `random+pilot` (70.0 %) is **below** `fixed` (100.0 %): −30.0 points, 95 % interval [−"
    )
    assert ["after adjustment" in line for line in lines[:4]] == [
        False,
        True,
        False,
        True,
    ], "the primary comparison is tested alone"
    assert "after adjustment for 5 comparisons p " in lines[3]
    assert all("The smallest difference visible here" in line for line in lines[:4])


def test_tables_hold_the_numbers_of_the_findings(page: str, data: Path):
    found = find(read_round(data, 1))
    effect = found.against["fixed"]["checkpoint-V6"]
    to_random, to_fixed = (
        row
        for row in rows(page.partition("## Round 2")[0], "`checkpoint-V6`")
        if len(row) == 6 and row[3].startswith(("0.", "1."))
    )
    assert to_random[1].startswith("+6.7 [")
    assert to_fixed[1:4] == [f"+10.0 {interval(effect)}", p_value(effect.p), p_value(effect.adjusted_p or 0)]
    assert rows(page, "start")[0][2].startswith("20.0 [")


def test_true_claims_stand_in_rounds_whose_rationales_were_checked(page: str, data: Path):
    claims = "claims of the rationale that are true"
    assert rows(page, claims)[0] == [claims, "–", "50.0 %", "50.0 %"]
    found = find(read_round(data, 1))
    assert claims in [row[0] for row in writing.behaviour_rows(SPACE_OF_BOARDS, found)]
    older = found.model_copy(update={"arms": tuple(map(unchecked, found.arms))})
    assert claims not in [row[0] for row in writing.behaviour_rows(SPACE_OF_BOARDS, older)]


def unchecked(arm: PolicyFinding) -> PolicyFinding:
    assert arm.conduct
    measured = arm.conduct.behaviour
    behaviour = measured.model_copy(update={"means": measured.means | {"true_claims": None}})
    return arm.model_copy(update={"conduct": arm.conduct.model_copy(update={"behaviour": behaviour})})


@pytest.mark.usefixtures("_undrawn")
def test_what_all_arms_of_a_round_have_instead_of_the_preset_is_said(data: Path, tmp_path: Path):
    second = SPEC.rounds[1].model_copy(update={"settings": {"trl.beta": 0.1, "instances": 30}})
    page = write_page(
        tmp_path, data, SPEC.model_copy(update={"rounds": (SPEC.rounds[0], second)})
    ).read_text()
    assert rows(page, "instead of the preset's") == [
        ["instead of the preset's", "–", "`trl.beta` 0.1, `instances` 30"]
    ]


def test_a_stage_0_of_each_seed_has_the_rates_of_the_seeds(page: str):
    first, second = (rows(part, "stage 0")[0] for part in page.split("## Round ")[1:])
    assert (first[1], first[6]) == ("", "")
    assert (second[1], second[2][:4], second[6]) == ("2", "40.0", "50.0, 30.0")
    one, each = page.split("## Round ")[1:]
    assert "Where that is 1, the seeds repeat" in one
    assert "Where that is 1, the seeds repeat" not in each
    assert "less the mean over the arms of the same seed and stage" in each
    assert "All 8 curricula together: 19k tokens, and with their stages 0 4.0 hours." in each


def interval(effect) -> str:
    return f"[{100 * effect.low:+.1f}, {100 * effect.high:+.1f}]".replace("-", "−")


def test_strata_stand_under_their_arms(page: str):
    lines = page.splitlines()
    heading = lines.index("| minus `fixed`, points | `random` | `checkpoint-V6` |")
    first = [cell.strip() for cell in lines[heading + 2].strip("|").split("|")]
    assert (first[0], first[1][:4], first[2][:5]) == ("2 agents, 7×7", "+3.3", "+10.0")


def test_the_page_shows_where_curves_part(page: str, data: Path):
    tables = [
        (base, rate, one.parted(base, rate))
        for one in (find(read_round(data, number)) for number in (1, 2))
        for base in one.against
        for rate in ("valid", "optimal")
    ]
    heads = [f"| {rate} minus `{base}`, points |" for base, rate, _ in tables]
    assert [
        line[: len(head)] for line in page.splitlines() for head in {*heads} if line.startswith(head)
    ] == heads
    after, since = rows(page, "after stage 1"), rows(page, "apart since stage")
    for told, last, (_, _, parted) in zip(after, since, tables, strict=True):
        assert [float(cell.split()[0].replace("\u2212", "-")) for cell in told[1:]] == pytest.approx(
            [100 * one.stages[0].value for one in parted], abs=0.051
        )
        assert last[1:] == [str(one.since or "\u2013") for one in parted]


def test_what_was_learned_and_what_was_registered_are_on_the_page(page: str, written: Path):
    assert "Waits matter <more> & more." in page
    assert page.count("is that of the registered study") == 2
    assert "(study/registration.md)" in page
    assert (written.parent / "study" / "registration.md").read_text() == "We expect little.\n"
    assert (written.parent / "study" / "policies.md").read_text() == "Small ones.\n"
    assert "Every curriculum made 8 optimizer steps" in page


def test_every_picture_of_the_page_is_there_and_all_files_are_the_same_again(
    written: Path, data: Path, tmp_path: Path
):
    again = write_page(tmp_path, data, SPEC)
    first, second = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*")}
        for folder in (written.parent, tmp_path)
    )
    assert first == second
    assert sorted(path.name for path in first if path.suffix == ".png") == PICTURES
    assert sorted(re.findall(r"!\[[^]]*\]\(study/([^)]+)\)", again.read_text())) == PICTURES


@pytest.mark.usefixtures("_undrawn")
def test_missing_rounds_are_named_also_half_written_ones(data: Path, tmp_path: Path):
    (tmp_path / "round-2").mkdir()
    (tmp_path / "round-2" / "answers.parquet").symlink_to(data / "round-2" / "answers.parquet")
    for name in ("test.parquet", "validation.parquet", "round-1"):
        (tmp_path / name).symlink_to(data / name)
    alone = write_page(tmp_path / "output", tmp_path, SPEC).read_text()
    assert "Round 2 is registered; no answers of it are stored here." in alone
    assert "Not written yet" in alone
    assert "registration.md" not in alone


@pytest.mark.usefixtures("_undrawn")
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            lambda stored: {
                **stored,
                "seeds": [*stored["seeds"][:-1], 77],
                "runs": [run for run in stored["runs"] if run["seed"] != stored["seeds"][-1]],
            },
            "other seeds",
        ),
        (lambda stored: {**stored, "arms": [*stored["arms"], "frontier"]}, "other arms than were registered"),
        (lambda stored: {**stored, "runs": [*stored["runs"], stored["runs"][0]]}, "there twice"),
        (lambda stored: {**stored, "seeds": stored["seeds"][:-1]}, "of no arm and seed of the round"),
    ],
)
def test_other_curricula_than_the_registered_ones_are_refused(
    data: Path, tmp_path: Path, change: Callable[[dict], dict], complaint: str
):
    for name in ("test.parquet", "validation.parquet", "round-2/answers.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(data / name)
    write_json(
        tmp_path / "round-2" / "curricula.json",
        change(json.loads((data / "round-2" / "curricula.json").read_text())),
    )
    with pytest.raises(DataError, match=complaint):
        write_page(tmp_path / "output", tmp_path, SPEC)


@pytest.mark.usefixtures("_undrawn")
def test_registered_seeds_that_are_not_complete_are_said(data: Path, tmp_path: Path, page: str):
    assert "is not finished" not in page
    for path in data.rglob("*.*"):
        (tmp_path / path.relative_to(data)).parent.mkdir(exist_ok=True)
        (tmp_path / path.relative_to(data)).write_bytes(path.read_bytes())
    file = tmp_path / "round-1" / "curricula.json"
    stored = json.loads(file.read_text())
    kept = {"seeds": [0, 2], "runs": [run for run in stored["runs"] if run["seed"] != 1]}
    write_json(file, stored | kept)
    partly = write_page(tmp_path / "output", tmp_path, SPEC).read_text()
    assert (
        "Round 1 is not finished: seeds 0, 2 are complete for all arms and are reported; 1 of the" in partly
    )


@pytest.mark.usefixtures("_undrawn")
def test_a_round_without_random_is_measured_against_fixed_alone(tmp_path: Path):
    one = SPEC.rounds[0].model_copy(update={"groups": (ArmGroup(engineers=("fixed", "checkpoint:V6")),)})
    spec = StudySpec(**SPEC.model_dump(exclude={"rounds"}), rounds=(one,))
    write(tmp_path, spec, 1, sets=small_sets())
    page = write_page(tmp_path / "output", tmp_path, spec).read_text()
    (headline,) = re.findall(r"- Round 1: (`checkpoint-V6`.*)", page)
    assert "not distinguishable from** `fixed` (40.0" in headline
    assert "after adjustment" not in headline
    assert "minus `fixed`" in page
    assert "minus `random`" not in page


@pytest.mark.usefixtures("_undrawn")
def test_another_registration_is_said(data: Path, tmp_path: Path):
    changed = SPEC.model_copy(update={"test": SPEC.test | {"seed": 6}})
    assert (
        "**what was run is not what the study's file says now**"
        in write_page(tmp_path, data, changed).read_text()
    )


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("curricula.json", b"{", "damaged"),
        ("answers.parquet", b"PAR1", "answers.parquet"),
        ("answers.parquet", None, "answers.parquet"),
    ],
)
def test_damaged_data_is_refused_and_nothing_is_written(
    data: Path, tmp_path: Path, name: str, content: bytes | None, complaint: str
):
    copy = tmp_path / "data"
    for path in data.rglob("*.*"):
        (copy / path.relative_to(data)).parent.mkdir(parents=True, exist_ok=True)
        (copy / path.relative_to(data)).write_bytes(path.read_bytes())
    (copy / "round-1" / name).unlink()
    if content:
        (copy / "round-1" / name).write_bytes(content)
    with pytest.raises(DataError, match=complaint):
        write_page(tmp_path / "output", copy, SPEC)
    assert not (tmp_path / "output").exists()


def test_no_round_and_another_study_are_refused(data: Path, tmp_path: Path):
    with pytest.raises(DataError, match="holds no round"):
        write_page(tmp_path, tmp_path, SPEC)
    with pytest.raises(DataError, match="of study small, not round 1 of other"):
        write_page(tmp_path, data, SPEC.model_copy(update={"name": "other"}))
