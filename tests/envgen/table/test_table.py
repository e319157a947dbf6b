"""The environment `dataset`: equal tables have equal instances, and a wrong one is refused in a sentence."""

import json
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from envgen.environment import Source
from envgen.errors import ConfigError, SamplingError, ShortageError
from envgen.registry import EnvironmentSpec
from envgen.table.environment import DatasetEnvironment
from flows.cli import app
from infra.config.preset import load_preset
from infra.runs.files import TEST, TRAIN_DATA, VALIDATION
from infra.runs.run import Run
from tasks.data import generate, make_test, make_validation

ROWS = [
    {"prompt": f'Add {n}, "and"\n{n + 1}: ä²', "answer": 2 * n + 1, "level": level, "rate": n / 12}
    for n, level in enumerate(["low", "high"] * 6)
]
LEVELS = {"column": "level", "order": ["low", "high"]}


def opened(source: str | Path, folder: Any = ".", **options: Any) -> DatasetEnvironment:
    spec = EnvironmentSpec(name="dataset", options={"source": str(source), "scorer": "number", **options})
    environment = spec.resolved(Path(folder)).load()
    assert isinstance(environment, DatasetEnvironment)
    return environment


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def by_pandas(path: Path) -> None:
    frame = pd.DataFrame(ROWS).astype({"answer": "Int64", "level": "category"})
    frame.index += 7
    frame.to_parquet(path)


def by_pyarrow(path: Path) -> None:
    views = pa.array([row["prompt"] for row in ROWS], pa.string_view())
    pq.write_table(pa.Table.from_pylist(ROWS).set_column(0, "prompt", views), path)


def by_windows(path: Path) -> None:
    lines = "\r\n".join(json.dumps(dict(reversed(row.items())), ensure_ascii=False) for row in ROWS)
    path.write_bytes(b"\xef\xbb\xbf" + f"\r\n{lines}".encode())


def by_excel(path: Path) -> None:
    frame = pd.DataFrame(ROWS)[["level", "rate", "prompt", "answer"]]
    path.write_bytes(b"\xef\xbb\xbf" + frame.to_csv(index=False, lineterminator="\r\n").encode())


WRITERS = {by_pandas: "parquet", by_pyarrow: "parquet", by_windows: "jsonl", by_excel: "csv"}
STORED = [Path(__file__).with_name("files") / f"{program}.parquet" for program in ("polars", "duckdb")]
"""Of polars 2.1.0: unsigned bytes, a categorical column, row groups of five. Of duckdb 2.0.1: decimals, an
enumeration, a list of nulls."""


def test_the_same_table_by_any_program_has_the_same_instances(tmp_path: Path) -> None:
    plain, paths = opened(write(tmp_path / "plain.jsonl", ROWS), strata=LEVELS), [*STORED]
    for writer, ending in WRITERS.items():
        writer(path := tmp_path / f"{writer.__name__}.{ending}")
        paths.append(path)
    for path in paths:
        environment = opened(path, strata=LEVELS)
        assert environment.rows == plain.rows, path
        assert environment.described.sha256 == plain.described.sha256
    assert plain.rows["low"][1].question == 'Add 2, "and"\n3: ä²'
    assert [instance.answer for instance in plain.rows["high"]] == ["3", "7", "11", "15", "19", "23"]


def test_strata_are_a_column_bins_or_files_in_their_order(tmp_path: Path) -> None:
    file = write(tmp_path / "rows.jsonl", ROWS)
    assert opened(file, strata={"column": "level"}).space.names == ("high", "low")
    assert opened(file, strata=LEVELS).space.names == ("low", "high")
    binned = opened(file, strata={"column": "rate", "bins": [0, 0.25, 1]})
    assert binned.described.rows == (("0 to 0.25", 3), ("0.25 to 1", 9))
    assert (binned.space.names[0], binned.space.strata[0].label) == ("0_to_0_25", "rate 0 to 0.25")
    rows = [{"prompt": str(n), "answer": n} for n in (10, 9, 100)]
    tens = opened(write(tmp_path / "tens.jsonl", rows), strata={"column": "answer"})
    assert tens.space.names == ("9", "10", "100")
    folder = tmp_path / "folder"
    folder.mkdir()
    write(folder / "b.jsonl", ROWS[:2])
    by_excel(folder / "a.csv")
    sources = opened("./folder", tmp_path)
    assert (sources.space.names, sources.described.duplicates) == (("a",), 2), "rows of b are in a"


def test_messages_and_fields_of_columns_are_read(tmp_path: Path) -> None:
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"}]
    rows = [{"messages": [*turns, {"role": "assistant", "content": "2"}], "reward": {"truth": "so #### 2"}}]
    options = {"prompt": "messages", "answer": "reward.truth"}
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "chat.parquet")
    for path in (tmp_path / "chat.parquet", write(tmp_path / "chat.jsonl", rows)):
        [instance] = opened(path, **options).rows["chat"]
        assert (instance.question, instance.answer) == ("Be brief.\n\n1+1?", "so #### 2")
        assert opened(path, **options).judge_one(instance, "It is 2.").valid
    rows[0]["messages"] += turns[1:]
    with pytest.raises(ConfigError, match=r"line 1: messages has the roles .* expected a single turn"):
        opened(write(tmp_path / "many.jsonl", rows), **options)


def test_a_name_is_loaded_by_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def load_dataset(path: str, **arguments: Any) -> Any:
        asked.append((path, arguments))
        if path != "some/rows":
            raise FileNotFoundError("no such data set")
        return datasets.Dataset.from_list(ROWS)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    environment = opened("some/rows", strata=LEVELS, load={"name": "main", "split": "test"})
    assert asked == [("some/rows", {"name": "main", "split": "test"})]
    assert len(environment.rows["low"]) == 6
    with pytest.raises(ConfigError, match=r"no/rows: cannot be loaded from the hub \(FileNotFoundError"):
        opened("no/rows")


def by(column: str = "answer", **more: Any) -> dict[str, Any]:
    return {"strata": {"column": column, **more}}


ONE, NUMBERS = "prompt,answer\na,1\n", "".join(f"{n},{n}\n" for n in range(99))
BAD: list[tuple[str, str, dict[str, Any], str]] = [
    ("m.jsonl", '{"prompt": "a", "answer": "1"}\n{"prompt": "b"}\n', {}, "m.jsonl, line 2: answer is empty"),
    ("m.jsonl", '{"prompt": "a", "answer": "x"}\n', {}, "answer is 'x': no number for scorer number"),
    ("m.jsonl", '{"prompt": "\\ud800", "answer": "1"}\n', {}, "line 1: prompt .*surrogates not allowed"),
    ("m.jsonl", '{"prompt": {}, "answer": "1"}\n', {}, "line 1: prompt is {}, expected a text or a number"),
    ("m.jsonl", '{"question": "a"}\n', {}, r"column 'prompt' is missing; found \['question'\]; name another"),
    ("m.jsonl", '{"prompt": "a"', {}, "m.jsonl: line 1: not JSON"),
    ("m.jsonl", "[1]\n", {}, "column 'prompt' is missing"),
    ("m.jsonl", '{"prompt": "a", "answer": 1}\n7\n', {}, "line 2: is 7; expected a JSON object"),
    ("m.csv", f"{ONE}a,1,2\n", {}, "m.csv: cannot be read .*Expected 2 columns, got 3: a,1,2"),
    ("m.csv", "prompt,answer,answer\na,1,2\n", {}, "column 'answer' stands twice"),
    ("m.csv", "prompt,answer\n", {}, "m.csv: has no rows"),
    ("m.csv", ONE, by("level"), "column 'level' is missing"),
    ("m.csv", ONE, by(bins=[2, 3]), "answer is '1', expected a number from 2 to 3"),
    ("m.csv", ONE, by(bins=[0, 2, 3]), "'2 to 3' has no rows"),
    ("m.csv", ONE, by(order=["2"]), "answer '1' is not named"),
    ("m.csv", ONE, by(bins=[2, 1]), "bins: .* do not rise"),
    ("m.csv", f"prompt,answer\n{NUMBERS}", by(), "50 strata"),
    ("m.parquet", "no Parquet", {}, "m.parquet: cannot be read"),
    ("other.csv", "", {"source": "m.csv"}, "m.csv: no such file; check environment.options.source"),
    ("m.csv", ONE, {"scorer": "sum"}, "scorer: String should match"),
    ("m.csv", ONE, {"scorer": "./no.py:score"}, "no.py:score: cannot be loaded: FileNotFoundError"),
]


@pytest.mark.parametrize(("name", "text", "options", "problem"), BAD)
def test_what_is_wrong_is_said_in_a_sentence(
    tmp_path: Path, name: str, text: str, options: Any, problem: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=problem) as caught:
        opened(**{"source": f"./{name}", "folder": tmp_path, **options})
    assert "\n" not in str(caught.value)


def test_duplicates_are_left_out_and_counted(tmp_path: Path) -> None:
    again = [{**ROWS[1], "prompt": ROWS[0]["prompt"].upper().replace(" ", "  ")}]
    environment = opened(write(tmp_path / "rows.jsonl", ROWS + again))
    assert environment.described.duplicates == 1
    assert len(environment.rows["rows"]) == 12


SCORER = """
SAID = {"a text": "right", "nothing": None}

def score(answer, entry):
    return SAID.get(entry["question"], float(answer) == entry["metadata"]["rate"])
"""


def test_a_scorer_that_fails_is_named_before_anything_is_trained(tmp_path: Path) -> None:
    write(tmp_path / "rows.jsonl", [{"prompt": p, "answer": "1", "rate": 0.5} for p in ("a text", "nothing")])
    (tmp_path / "mine.py").write_text(SCORER)
    environment = opened("./rows.jsonl", tmp_path, scorer="./mine.py:score", metadata=["rate"])
    problem = r"environment.options: '1' to .*returned 'right'.*; mend the scorer"
    with pytest.raises(ConfigError, match=problem):
        environment.longest_prompt("plain")
    for instance, said in zip(environment.rows["rows"], ("'right'", "None"), strict=True):
        verdict = environment.judge_one(instance, "1")
        assert verdict.category == "scorer_failed"
        assert f"returned {said}; expected a number from 0 to 1" in verdict.detail
    right = instance.model_copy(update={"question": "right"})
    assert [verdict.valid for verdict in environment.judge([right] * 2, ["0.5", "0.4"])] == [True, False]
    environment.worker.close()
    (tmp_path / "mine.py").write_text(f"{SCORER}\n")
    with pytest.raises(ConfigError, match=r"mine\.py changed since the run began"):
        environment.judge([right], ["0.5"])


def preset(folder: Path, rows: int = 40) -> Run:
    """A run of a table with `rows` rows in each of two strata."""
    table = [{"prompt": f"{n}?", "answer": n, "kind": "ab"[n % 2]} for n in range(2 * rows)]
    options = {"source": str(write(folder / "rows.jsonl", table)), **by("kind")}
    parts = {"strata": {"a": {"data_ratio": 0.75}, "b": {"data_ratio": 0.25}}}
    drawn = {"instances": 20, "validation": {"instances": 6}, "test": {"instances": 4}}
    environment = {"environment": {"name": "dataset", "options": options}, "prompt_style": "plain"}
    fields = {"default_config": parts, **environment, **drawn}
    return Run(directory=folder / "run", chosen=load_preset("simulated", fields))


def test_no_row_is_in_two_sets_and_stages_use_unused_rows_first(tmp_path: Path) -> None:
    run = preset(tmp_path, rows=45)
    validation = make_validation.fn(run)
    test = make_test.fn(run, None, validation)
    for stage in range(3):
        generate.fn(run, stage, run.preset.default_config, validation, test)
    held = [instance.id for file in (VALIDATION, TEST) for instance in run.read(file)]
    trained = [[i.id for i in run.read(TRAIN_DATA, stage) if i.stratum == "a"] for stage in range(3)]
    assert (len(set(held)), [len(set(ids)) for ids in trained]) == (20, [15] * 3)
    assert not {*held} & {*trained[0], *trained[1], *trained[2]}
    assert len({*trained[0], *trained[1]}) == 30
    assert len({*trained[0], *trained[1], *trained[2]}) == 35, "all that is left of 45 rows"
    with pytest.raises(ShortageError, match="only 35 of 36 rows exist"):
        run.preset.task.generate("a", {}, 36, Source(0), frozenset(held))


def test_a_stratum_with_too_few_rows_is_named_before_anything_is_trained(tmp_path: Path) -> None:
    assert preset(tmp_path, rows=25).preset.instances == 20
    needs = "a: has 24 rows, and needs 25: 6 for validation, 4 for test"
    with pytest.raises((ConfigError, SamplingError), match=needs):
        preset(tmp_path, rows=24)
    (tmp_path / "other").mkdir()
    run = preset(tmp_path / "other")
    write(tmp_path / "other" / "rows.jsonl", [{"prompt": "?", "answer": "1", "kind": "a"}])
    with pytest.raises(ConfigError, match="changed since the run began"):
        DatasetEnvironment(run.preset.task.options).longest_prompt("plain")


def test_new_writes_a_data_set_and_a_preset_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["new", "environment", "quiz", "--kind", "dataset"]
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0
    assert load_preset("./quiz.yaml").space.names == ("easy", "medium", "hard")
    assert len((tmp_path / "quiz.jsonl").read_text().splitlines()) == 60
    with pytest.raises(ConfigError, match=r"quiz\.jsonl: exists already"):
        CliRunner().invoke(app, words, catch_exceptions=False)
