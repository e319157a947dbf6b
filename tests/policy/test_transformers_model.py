import json
from pathlib import Path

import pytest

from engineer.answer import answer_schema, parse_answer, project
from engineer.context import ConfigSpace
from envgen.config import EnvConfig, SizeConfig
from envgen.errors import ModelError
from policy.chat import Sampling, ask
from policy.engine import EngineChatModel, EngineConfig
from policy.transformers_model import TransformersModel

QUESTIONS = [ask(text) for text in ("Solve 3x3.", "Solve 3x3.\nHoles: (0,1) (1,1)", "a", "Agent 0: (0,0) to (2,2)\nAgent 1: (1,0) to (0,2)")]


@pytest.fixture(scope="module")
def model(random_checkpoint: Path) -> TransformersModel:
    return TransformersModel(str(random_checkpoint), batch_size=3, dtype="float32")


def test_greedy_answers_do_not_depend_on_the_company_in_the_batch(model):
    together = model.complete(QUESTIONS, Sampling(max_tokens=12))
    alone = [model.complete([question], Sampling(max_tokens=12))[0] for question in QUESTIONS]
    assert together == alone


def test_sampled_answers_repeat_with_the_seed_and_change_with_it(model):
    first, again, other = (model.complete(QUESTIONS, Sampling(max_tokens=12, temperature=1.0, seed=seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_an_answer_cut_off_by_the_limit_says_so(model):
    [cut] = model.complete([QUESTIONS[0]], Sampling(max_tokens=2))
    assert (cut.finish_reason, cut.completion_tokens) == ("length", 2)


def test_a_prompt_that_does_not_fit_is_refused_by_name(model):
    with pytest.raises(ModelError, match="lower max_tokens"):
        model.complete([ask("x" * 600)], Sampling(max_tokens=8))


def test_even_random_weights_answer_in_the_schema(model):
    space = ConfigSpace(map_sizes=(3, 4))
    previous = EnvConfig(sizes={size: SizeConfig(data_ratio=0.5, hole_ratio=0.2, wait_ratio=0.5) for size in (3, 4)})
    schema = answer_schema(space)
    schema["properties"]["rationale"]["maxLength"] = 8
    answers = model.complete([ask("Design")] * 6, Sampling(max_tokens=300, temperature=1.0, seed=3, json_schema=schema))
    complete = [a.text for a in answers if a.finish_reason == "stop"]
    assert complete
    for text in complete:
        assert set(json.loads(text, strict=False)["config"]["sizes"]) == {"3", "4"}
        _, raw = parse_answer(text)
        if any(knobs["data_ratio"] > 0 for knobs in raw["sizes"].values()):
            config, _ = project(raw, space, previous)
            assert tuple(config.sizes) == (3, 4)


def test_what_is_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"config\.json is missing"):
        TransformersModel(str(tmp_path))


def test_a_model_in_a_child_answers_like_one_here_reports_progress_and_can_be_killed(random_checkpoint, model, tmp_path):
    engine = EngineChatModel(str(random_checkpoint), EngineConfig(batch_size=3, dtype="float32"), tmp_path / "engine.log")
    try:
        done: list[int] = []
        assert engine.complete(QUESTIONS, Sampling(max_tokens=12), done.append) == model.complete(QUESTIONS, Sampling(max_tokens=12))
        assert done == [3, 4]
        with pytest.raises(ModelError, match="lower max_tokens"):
            engine.complete([ask("x" * 600)], Sampling(max_tokens=8))
        assert engine.complete([QUESTIONS[0]], Sampling(max_tokens=2))[0].completion_tokens == 2
        whole = engine.complete(QUESTIONS, Sampling(max_tokens=12))
        engine._child.kill()  # type: ignore[union-attr]
        assert engine.complete(QUESTIONS, Sampling(max_tokens=12)) == whole, "a killed child is started again"
        with pytest.raises(ModelError, match=r"unexpectedly, twice; .*engine\.log"):
            engine.complete(QUESTIONS, Sampling(max_tokens=12), lambda _: engine._child.kill())  # type: ignore[union-attr]
        assert len(engine.complete(QUESTIONS, Sampling(max_tokens=2))) == len(QUESTIONS), "the next call starts a new child"
    finally:
        engine.close()
