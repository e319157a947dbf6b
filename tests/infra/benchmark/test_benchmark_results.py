"""Scores of a benchmark from rollouts made by hand, their JSON, tables and figure; what a benchmark asks
where nothing is said."""

import json
from io import StringIO
from pathlib import Path

import pytest
from factories import rollout
from rich.console import Console
from scipy.stats import binomtest

from envgen.errors import EnvwrightError
from envgen.files import write_json
from envgen.mapf.benchmark import item_of, load_suite, published_rates
from envgen.mapf.prompts import PromptStyle, answer
from envgen.mapf.verifier import FailureCategory
from envgen.suites import Item
from flows.commands.benchmark_cli import benchmark_tables, closing_lines
from infra.benchmark.results import RESULTS_FILE, BenchmarkResults, count
from infra.benchmark.spec import ANSWER_TOKENS, BenchmarkSpec, benchmark_directory, planned
from policy.chat.engine_config import EngineConfig
from policy.rollouts import Rollout

SUITE = load_suite()


def answered(item: Item, number: int) -> Rollout:
    """Every fourth answer is optimal, every fourth a detour, the others are nonsense; of those half were cut
    off."""
    plan = item.instance.solution.plan
    text = ["", answer(plan), answer(tuple((path[0], *path) for path in plan)), ""][number % 4]
    return rollout(item.instance, text, completion_tokens=10, truncated=number % 4 == 3)


def results(items: list[Item]) -> BenchmarkResults:
    answers = [answered(item, number) for number, item in enumerate(items)]
    scores = count(items, answers, tuple(FailureCategory))
    origin = {"model_identity": "m", "data_digest": "d", "code": "0", "seconds": 2}
    return BenchmarkResults(spec=BenchmarkSpec(model="m"), scores=scores, **origin)


def printed(results: BenchmarkResults) -> str:
    console = Console(width=79, record=True, file=StringIO())
    for table in benchmark_tables(results):
        console.print(table)
    return console.export_text()


WHOLE = results(SUITE)


@pytest.mark.parametrize(
    "group",
    [
        {},
        {"wait subset": "wr_050"},
        {"agents": "4 agents"},
        {"agents": "5 agents", "map size": "7x7"},
        {"wait subset": "wr_075", "agents": "3 agents", "map size": "3x3"},
    ],
)
def test_every_group_is_counted_with_wilson_intervals(group: dict):
    score = WHOLE.score(group)
    assert score is not None
    chosen = [number for number, item in enumerate(SUITE) if group.items() <= item.groups.items()]
    optimal, valid = (sum(number % 4 in kinds for number in chosen) for kinds in ((1,), (1, 2)))
    assert (score.n, score.valid, score.optimal) == (len(chosen), valid, optimal)
    assert score.completion_tokens == 10 * len(chosen)
    assert score.truncated == sum(number % 4 == 3 for number in chosen)
    assert score.failures[FailureCategory.PARSE_ERROR] == len(chosen) - valid
    for rate, successes in ((score.valid_rate, valid), (score.optimal_rate, optimal)):
        interval = binomtest(successes, len(chosen)).proportion_ci(method="wilson")
        wanted = (successes / len(chosen), interval.low, interval.high)
        assert (rate.value, rate.low, rate.high) == pytest.approx(wanted)


def test_the_json_holds_every_cell_and_all_sums(tmp_path: Path):
    write_json(tmp_path / RESULTS_FILE, WHOLE)
    stored = json.loads((tmp_path / RESULTS_FILE).read_text())
    assert len(stored["scores"]) == (3 + 1) * (21 + 3 + 8 + 1)
    assert BenchmarkResults.model_validate(stored) == WHOLE
    cells = [score for score in WHOLE.scores if len(score.groups) == 3]
    assert (len(cells), sum(score.n for score in cells)) == (63, 3150)
    assert WHOLE.overall.valid == sum(score.valid for score in cells) == 1575


def test_the_tables_show_rates_with_intervals_and_mark_what_is_published():
    text = printed(WHOLE)
    assert "m on the benchmark suite, 3,150 instances" in text
    assert "50.0 [48.3,51.7]" in text
    models, variants = (table.rates for table in published_rates())
    assert (len(models), len(variants)) == (7, 9)
    for model, rates in models.items():
        assert model in text
        assert all(rate in text for rate in rates.values())
    assert all(rates["all"] in text for rates in variants.values())
    assert text.count("below the line: published, on the authors' instances, not ours") == 2
    assert "10x10" in text
    assert closing_lines(WHOLE) == [
        "failures: parse error 1,575",
        "31,500 tokens in 2 s; 787 of 3,150 answers were cut off at the token limit",
    ]


def test_instances_of_one_subset_and_two_agents_are_compared_with_nothing():
    problem, solution = SUITE[0].instance.problem, SUITE[0].instance.solution
    problem = problem.model_copy(update={"agents": problem.agents[:2]})
    solution = solution.model_copy(update={"plan": solution.plan[:2]})
    two = SUITE[0].instance.model_copy(update={"problem": problem, "solution": solution})
    text = printed(results([item_of(two, "x")]))
    assert "2 agents" in text
    assert "published" not in text
    assert "wr_" not in text


BOARD, COMPACT = PromptStyle.BOARD, PromptStyle.COMPACT


@pytest.mark.parametrize(
    ("model", "said", "style", "tokens"),
    [
        ("tiny", {}, COMPACT, 128),
        ("tiny", {"answer_tokens": 64}, COMPACT, 64),
        ("tiny", {"style": "board"}, BOARD, 8),
        ("Qwen/Qwen3-4B", {}, BOARD, ANSWER_TOKENS),
        ("http://localhost:8000/v1#m", {}, BOARD, ANSWER_TOKENS),
        ({"max_position_embeddings": 40_960}, {}, BOARD, ANSWER_TOKENS),
        ({"max_position_embeddings": 4096}, {}, BOARD, 2048),
        ({"max_position_embeddings": 4095}, {}, COMPACT, 128),
        ({"max_position_embeddings": "?"}, {}, BOARD, ANSWER_TOKENS),
        ({}, {}, BOARD, ANSWER_TOKENS),
    ],
)
def test_the_context_of_a_checkpoint_decides_how_it_is_asked(model, said, style, tokens, tmp_path):
    if isinstance(model, dict):
        (tmp_path / "config.json").write_text(json.dumps(model))
        model = str(tmp_path)
    spec = planned(BenchmarkSpec(model=model, **said))
    assert (spec.style, spec.answer_tokens) == (style, tokens)


def test_a_model_that_cannot_be_asked_is_refused(tmp_path: Path):
    for model, said in (("", "model: is empty; give tiny"), (str(tmp_path), "no checkpoint there")):
        with pytest.raises(EnvwrightError, match=said):
            planned(BenchmarkSpec(model=model))


def test_names_tell_model_and_data_and_differ_with_every_option(monkeypatch, tmp_path):
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path))
    spec = planned(BenchmarkSpec(model="tiny"))
    engines = ({"engine": EngineConfig(**fields)} for fields in ({"dtype": "bfloat16"}, {"backend": "vllm"}))
    changes = ({"data": "d/rows.parquet"}, {"limit": 2}, {"answer_tokens": 9}, *engines)
    names = [benchmark_directory(spec.model_copy(update=change)).name for change in ({}, *changes)]
    assert len(set(names)) == 6
    assert names[0].startswith("tiny-suite-")
    assert names[1].startswith("tiny-rows-")
    wider = spec.model_copy(update={"engine": EngineConfig(batch_size=3)})
    assert benchmark_directory(wider) == tmp_path / "benchmarks" / names[0]
