"""What a run achieved, in sentences, and the command that measures the redesign alone."""

import shlex
from pathlib import Path

import pytest
from factories import MICRO, asked, finished_run, shares, with_results

from engineer.gate import BASE_POLICY, decide
from envgen.estimates import Difference
from flows.parameters import ComparisonOptions, chosen_comparison
from infra.config.dotted import parse_override
from infra.config.preset import load_preset
from infra.markdown import result_markdown
from infra.results import CurriculumResults
from infra.runs.files import COMPARISON, RESULTS
from infra.runs.run import Run, open_run
from infra.summary import advice, headlines, notes

ROSE, FELL, UNCLEAR = (
    Difference(value=value, low=value - 0.05, high=value + 0.05, p=p)
    for value, p in ((0.1, 0.001), (-0.1, 0.001), (0.01, 0.7))
)
CONFIGS = (shares(0.5), shares(0.8), shares(0.6), shares(0.7))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> CurriculumResults:
    """Three stages: rates of 30 %, then 50 %, 70 % and 60 %; the second design came to nothing."""
    directory = tmp_path_factory.mktemp("runs") / "first"
    fallback = {"fallback": "the answer could not be read"}
    proposals = (asked(0, CONFIGS[1]), asked(1, CONFIGS[2], **fallback), asked(2, CONFIGS[3]))
    run = finished_run(directory, (3, 5, 7, 6), proposals=proposals, configs=CONFIGS)
    return with_results(run).read(RESULTS)


def changed(results: CurriculumResults, number: int, **fields: object) -> CurriculumResults:
    stages = [stage.model_copy(update=fields if stage.stage == number else {}) for stage in results.stages]
    return results.model_copy(update={"stages": tuple(stages)})


def proposed(results: CurriculumResults, *proposals: dict) -> CurriculumResults:
    """Give the stages proposals with these fields, and no drop."""
    for number, fields in enumerate(proposals):
        proposal = asked(number, CONFIGS[number + 1], **fields)
        gate = decide("off", number, BASE_POLICY, UNCLEAR)
        results = changed(results, number, proposal=proposal, gate=gate)
    return results


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_the_designed_stages_stand_apart_from_stage_0_with_both_rates(results: CurriculumResults):
    designed, first = map(plain, headlines(results, "optimal"))
    label = "Stages 1 to 2 (training and redesign together; 1 of 2 designs of checkpoint used): "
    assert designed.startswith(label)
    assert "from 50.0 % to 60.0 %, +10.0 points [" in designed
    assert first.startswith("Stage 0 (default config): no clear change in valid")
    assert "from 30.0 % to 50.0 %, +20.0 points [" in first
    assert designed.count("points [") == first.count("points [") == 2, "valid and optimal"
    assert headlines(results, None)[0].count("points [") == 1
    alone = results.model_copy(update={"stages": results.stages[:1]})
    assert [plain(text).partition(":")[0] for text in headlines(alone, None)] == ["Stage 0 (default config)"]


@pytest.mark.parametrize(
    ("valid", "optimal", "words"),
    [
        (ROSE, FELL, ("valid rose from", "; optimal fell from")),
        (UNCLEAR, UNCLEAR, ("no clear change in valid from", "; no clear change in optimal from")),
    ],
)
def test_a_claim_is_no_stronger_than_the_interval(results, valid, optimal, words):
    judged = changed(results, 2, designed_valid_gain=valid, designed_optimal_gain=optimal)
    assert all(word in headlines(judged, "optimal")[0] for word in words)


def test_a_run_that_could_learn_nothing_says_so_first(results: CurriculumResults):
    none = {"valid": 0, "optimal": 0, "labels": {}, "measures": {}}
    strata = {}
    for name, part in results.start.strata.items():
        failures = dict.fromkeys(list(part.failures)[:1], part.n)
        strata[name] = part.model_copy(update={**none, "failures": failures})
    start = results.start.model_copy(update={"strata": strata})
    first = headlines(results.model_copy(update={"start": start}), None)[0]
    assert plain(first).startswith(f"The base policy solved none of {start.overall.n} instances")


def test_a_config_that_never_changed_is_no_design(results: CurriculumResults):
    for number in (1, 2):
        results = changed(results, number, config=CONFIGS[0])
    assert headlines(results, None)[0].startswith("Stages 1 to 2 (default config): ")


def test_what_the_gate_threw_away_is_in_no_part(results: CurriculumResults):
    designed = "Stage 1 (training and redesign together; 1 of 1\u00a0design of checkpoint used)"
    for back, first in ((1, designed), (0, "Stage 0 (")):
        rolled = changed(results, 2, gate=decide("rollback", 2, back, FELL))
        assert headlines(rolled, None)[0].startswith(first)
        assert headlines(rolled, None)[-1] == f"The gate rolled back: the run ends with stage {back}."


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"seed": 7, "stages": 3, "engineer.context": "V1", "trl.learning_rate": 0.01},
        {"engineer.name": "frontier", "approval": "required"},
        {"engineer.name": "replay", "engineer.options": {"configs": [MICRO.default_config.model_dump()]}},
    ],
)
def test_the_advice_is_a_command_that_compares_the_preset_with_fixed(
    results, settings, tmp_path, monkeypatch
):
    preset = load_preset("micro", settings)
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path))
    sentence = advice(results, open_run(tmp_path / results.curriculum, preset))
    assert ("taught a design rule" in sentence[0]) == (preset.engineer.name == "checkpoint")
    program, command, source, *words = shlex.split(sentence[1])
    assert (program, command, source) == ("envwright", "compare", results.curriculum)
    options = dict(zip(words[::2], words[1::2], strict=True))
    settings = dict([parse_override(options["--set"])]) if "--set" in options else {}
    engineers, seeds = options["--engineers"].split(","), map(int, options["--seeds"].split(","))
    chosen = ComparisonOptions(engineers=engineers, seeds=[*seeds], settings=settings)
    spec, _ = chosen_comparison(source, "", chosen)
    assert [each.engineer.name for each in spec.presets.values()] == ["fixed", preset.engineer.name]
    assert spec.children[1].preset.engineer == preset.engineer
    assert spec.base.trl == preset.trl
    assert spec.base.stages == preset.stages
    assert spec.file.seeds[0] == preset.seed


def test_a_baseline_a_run_of_a_comparison_and_a_first_stage_need_no_advice(results, tmp_path):
    run = Run(directory=tmp_path / "run", chosen=MICRO)
    assert advice(results, run)
    fixed = results.model_copy(update={"engineer": "fixed"})
    assert advice(fixed, run) is None
    alone = results.model_copy(update={"stages": results.stages[:1]})
    assert advice(alone, run) is None, "nothing was designed yet"
    (tmp_path / COMPARISON).touch()
    assert advice(results, run) is None


def test_a_stage_that_kept_its_config_says_why_and_one_with_a_drop_what_followed(results: CurriculumResults):
    reasons = (
        "the model could not answer, the previous config is kept: http://host/v1: status 500",
        "engineer 'tidal' failed",
    )
    assert notes(proposed(results, {}, {}, {})) == []
    assert notes(proposed(results, {"fallback": reasons[0]}, {}, {"fallback": reasons[1]})) == [
        "stage 0: the previous config was kept: the model could not answer: http://host/v1: status 500",
        "stage 2: the previous config was kept: engineer 'tidal' failed",
    ]
    rollback = decide("rollback", 2, 1, FELL)
    rolled = changed(proposed(results, {}, {}, {"fallback": "by the gate: a drop"}), 2, gate=rollback)
    assert notes(rolled) == [f"stage 2: {rollback.reason}"]


def test_the_result_on_a_curriculums_page_has_headlines_and_rates(results: CurriculumResults, tmp_path: Path):
    page = result_markdown(Run(directory=tmp_path, chosen=MICRO), results, {}, "")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    policies = ["base policy", *(f"after stage {number}" for number in range(3))]
    assert [row.split("|")[1].strip() for row in rows[2:]] == policies
    assert all(sentence in page for sentence in headlines(results, "optimal"))
