"""`envwright engineers bench` as a person calls it."""

import json

import pytest
from support.misbehaving_endpoint import answers, sends, serving

ANSWER = json.dumps({"rationale": "Half to the first.", "config": {"levels": {"1": {"data_ratio": 0.5}}}})
TRAPS = 8


@pytest.mark.slow
def test_a_server_is_asked_in_every_world_and_its_answers_are_kept(envwright, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with serving(answers(ANSWER)) as server:
        options = ("--set", f"engineer.options.base_url={server.url}", "--set", "engineer.options.model=m")
        asked = (
            "--engineer",
            "openai,temperature=0.5",
            "--draws",
            2,
            "-o",
            "out",
            "--price",
            1000,
            0,
            *options,
        )
        done = envwright("engineers", "bench", *asked)
    questions = TRAPS * 2 * 5
    assert done.code == 0, done.err
    assert f"{questions} of {questions}" in done.out
    assert len(server.asked) == questions
    assert {question["temperature"] for question, _ in server.asked} == {0.5}
    results = json.loads((tmp_path / "out" / "engineers.json").read_text())
    tokens = {score["engineer"]: score["tokens"] for score in results["engineers"]}
    assert set(tokens) == {"look-ahead", "fixed", "openai,temperature=0.5"}
    assert tokens["openai,temperature=0.5"] == [11 * questions, 5 * questions]
    assert f"{11 * questions * 1000 / 1e6:.2f}" in done.out
    lines = (tmp_path / "out" / "answers" / "openai,temperature=0.5.jsonl").read_text().splitlines()
    first = json.loads(lines[0])
    assert len(lines) == questions
    assert first["attempts"][0]["text"] == ANSWER
    assert first["prompt"] in [question["messages"][0]["content"] for question, _ in server.asked]
    page = (tmp_path / "out" / "engineers.html").read_text()
    assert "openai,temperature=0.5" in page
    assert "hardly an answer to it can be read" in page


def test_a_server_that_refuses_the_first_question_ends_the_bench(envwright):
    with serving(sends({"error": "max_tokens is too large"}, 400)) as server:
        fields = f"openai,options.model=m,options.base_url={server.url},max_tokens=9000"
        done = envwright("engineers", "bench", "--draws", 2, "--engineer", fields)
    assert done.code == 2
    assert "engineer openai: the model could not answer" in done.err
    assert "max_tokens is too large" in done.err


def test_what_cannot_be_measured_is_refused_before_anything_is_played(refused):
    bench = ["engineers", "bench"]
    refused([*bench, "--engineer", "checkpoint"], "engineer 'checkpoint' asks a policy", "--model")
    refused([*bench, "--engineer", "frontir"], "did you mean 'frontier'")
    refused([*bench, "--engineer", "frontier,options.floor=0.3"], "floor: 0.3 is too large")
    refused([*bench, "--set", "seed=3"], "--set seed=3: only fields of engineer can be set")
    refused([*bench, "--draws", "2", "--engineer", "frontier,options.lwo=1"], "lwo")
