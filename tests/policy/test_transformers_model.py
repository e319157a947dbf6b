import json
import shutil
from pathlib import Path

import pytest
import torch
from boards import QUESTIONS
from safetensors.torch import load_file
from support.boards import boards_config

from engineer.answer import answer_schema, parse_answer, project
from envgen.errors import ModelError
from envgen.mapf.space import Options, space_of
from policy.chat.contract import Sampling, ask
from policy.chat.transformers_model import _Draw, load
from policy.checkpoints import resolve_model


def test_greedy_answers_do_not_depend_on_the_company_in_the_batch(random_model):
    together = random_model.complete(QUESTIONS, Sampling(max_tokens=12))
    alone = [random_model.complete([question], Sampling(max_tokens=12))[0] for question in QUESTIONS]
    assert together == alone


def test_sampled_answers_depend_on_the_seed_and_neither_on_the_order_nor_on_what_else_is_asked(random_model):
    drawn = Sampling(max_tokens=12, temperature=1.0, seed=1)
    other = drawn.model_copy(update={"seed": 2})
    assert random_model.complete(QUESTIONS, drawn) == random_model.complete(QUESTIONS, drawn)
    assert random_model.complete(QUESTIONS, drawn) != random_model.complete(QUESTIONS, other)
    asked = [QUESTIONS[0], *QUESTIONS, QUESTIONS[0], QUESTIONS[2]]
    found = random_model.complete(asked, drawn)
    first, *_ = group = [found[index] for index in (0, 1, 5)]
    assert len({completion.text for completion in group}) == 3, "equal prompts get answers of their own"
    assert random_model.complete([QUESTIONS[0]], drawn) == [first]
    assert sorted(random_model.complete(asked[::-1], drawn), key=str) == sorted(found, key=str)


@pytest.mark.parametrize(("top_p", "kept"), [(1.0, 4), (0.9, 3), (0.79, 2), (0.1, 1)])
def test_a_token_is_drawn_with_its_probability_at_the_temperature_in_the_nucleus(top_p: float, kept: int):
    chances, draws, temperature = torch.tensor([0.5, 0.3, 0.15, 0.05, 0.0]), 20_000, 0.7
    scores = (chances.log() * temperature).repeat(draws, 1)
    drawn = _Draw(temperature, top_p, list(range(draws)), "cpu")(torch.empty(0), scores).argmax(dim=1)
    shares = drawn.bincount(minlength=5) / draws
    nucleus = chances[:kept] / chances[:kept].sum()
    assert shares[:kept].tolist() == pytest.approx(nucleus.tolist(), abs=4 * (0.25 / draws) ** 0.5)
    assert shares[kept:].sum() == 0, "what a schema forbids is never drawn, and nothing outside the nucleus"


def test_an_answer_cut_off_by_the_limit_says_so_and_a_prompt_that_does_not_fit_is_refused(random_model):
    [cut] = random_model.complete([QUESTIONS[0]], Sampling(max_tokens=2))
    assert (cut.finish_reason, cut.completion_tokens) == ("length", 2)
    with pytest.raises(ModelError, match="shorten the prompt"):
        random_model.complete([ask("x" * 5_000)], Sampling(max_tokens=8))
    with pytest.raises(ModelError, match=r"lower max_tokens to \d+$"):
        random_model.complete([QUESTIONS[0]], Sampling(max_tokens=5_000))


def test_even_random_weights_answer_in_the_schema(random_model):
    space = space_of(Options(map_sizes=(3, 4)))
    previous = boards_config(dict.fromkeys((3, 4), (0.5, 0.2, 0.5)))
    schema = answer_schema(space)
    schema["properties"]["rationale"]["maxLength"] = 8
    sampling = Sampling(max_tokens=300, temperature=1.0, seed=3, json_schema=schema)
    answers = random_model.complete([ask("Design")] * 3, sampling)
    complete = [a.text for a in answers if a.finish_reason == "stop"]
    assert complete
    for text in complete:
        assert set(json.loads(text, strict=False)["edits"]) <= {"3", "4"}
        _, raw = parse_answer(text, space)
        if any("data_ratio" not in knobs or knobs["data_ratio"] > 0 for knobs in raw["edits"].values()):
            config, _ = project(raw, space, previous)
            assert tuple(config.strata) == ("3", "4")


def test_a_small_model_computes_with_one_thread_unless_the_user_says_otherwise(monkeypatch):
    before = torch.get_num_threads()
    try:
        for threads in (2, 1):
            torch.set_num_threads(2)
            monkeypatch.setenv("OMP_NUM_THREADS", "2")
            if threads == 1:
                monkeypatch.delenv("OMP_NUM_THREADS")
            load("tiny")
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_weights_are_never_read_from_a_pickle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "pickled"
    shutil.copytree(resolve_model("tiny"), folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    # A hub id passes as it is; a folder is checked before.
    monkeypatch.setattr("policy.chat.transformers_model.resolve_model", str)
    with pytest.raises(ModelError, match="cannot be loaded"):
        load(str(folder))
