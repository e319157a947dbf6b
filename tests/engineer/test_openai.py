"""The engineer behind an OpenAI-compatible endpoint, asked over HTTP."""

import json
import logging
from typing import Any

import pytest
from contexts import LATEST, SPACE, design_context, designed, env_config
from support.designs import answer_text
from support.misbehaving_endpoint import answers, completion, hangs, sends, serving

from engineer.answer import answer_schema
from engineer.contract import Proposal
from engineer.engineers.registry import resolve
from engineer.prompt import design_prompt
from engineer.propose import check_answers
from engineer.spec import EngineerSpec
from envgen.errors import ConfigError, EngineerError, ModelError

KEY = "sk-secret-0123456789abcdef"
WANTED = env_config({3: (0.4, 0.3, 0.5), 5: (0.6, 0.2, 0.25)})
GOOD = answer_text("More data for 5x5.", WANTED)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def spec_of(url: str, **options: Any) -> EngineerSpec:
    quick = {"base_url": url, "model": "m", "timeout": 20, "retries": 1}
    return resolve(EngineerSpec(name="openai", options={**quick, **options}), SPACE, 4)


def proposal_of(url: str, **options: Any) -> Proposal:
    return designed(spec_of(url, **options))


def test_an_endpoint_is_asked_the_design_question_and_its_answer_becomes_the_next_config():
    with serving(answers(GOOD)) as server:
        proposal = proposal_of(server.url)
    assert (proposal.config, proposal.rationale, proposal.fallback) == (WANTED, "More data for 5x5.", None)
    assert (proposal.engineer, proposal.stage) == ("openai", 2)
    [(question, headers)] = server.asked
    assert question["messages"] == [{"role": "user", "content": design_prompt(design_context(), "V6")}]
    sent = question["response_format"]["json_schema"]["schema"]["properties"]
    assert sent["rationale"] == {"type": "string"}
    strata = sent["edits"]["properties"]
    assert strata["3"]["properties"] == {name: {"type": "number"} for name in WANTED.strata["3"].model_dump()}
    assert headers["authorization"] == f"Bearer {KEY}"


def test_the_options_are_those_that_unfinished_runs_hold_fast():
    """A field more would be another preset to every run that was made before it."""
    asked = {"base_url", "model", "api_key_env", "timeout", "retries", "token_limit", "seed"}
    options = spec_of("http://localhost:1/v1").options
    assert set(options) == asked
    assert (options["api_key_env"], options["token_limit"]) == ("OPENAI_API_KEY", "max_tokens")
    assert KEY not in json.dumps(options)


def test_tokens_of_everything_asked_are_kept():
    unread = answers("no", prompt_tokens=1000, completion_tokens=10)
    read = answers(GOOD, prompt_tokens=500, completion_tokens=30)
    with serving(unread, sends("oops", 503), read) as server:
        proposal = proposal_of(server.url)
    assert proposal.fallback is None
    assert len(proposal.attempts) == 2
    assert (proposal.prompt_tokens, proposal.completion_tokens, len(server.asked)) == (1500, 40, 3)
    with serving(sends({**completion(GOOD), "usage": None})) as server:
        proposal = proposal_of(server.url)
    assert (proposal.config, proposal.prompt_tokens, proposal.completion_tokens) == (WANTED, None, None)


# What a server can do wrong, and that nobody sees a key, is tested in tests/policy/test_openai_*.py.
BROKEN = {
    "hangs": (hangs, "no complete answer within 0.5 s"),
    "fails": (sends("oops", 500), "status 500, 'oops'"),
    "repeats the key": (sends({"error": f"not {KEY}"}, 401), "variable OPENAI_API_KEY to a valid key"),
    "is cut off": (answers(GOOD[:40], finish="length"), "the previous config is kept"),
}


@pytest.mark.parametrize(("behaviour", "reason"), BROKEN.values(), ids=list(BROKEN))
def test_an_endpoint_that_fails_costs_only_the_redesign(behaviour, reason: str, caplog):
    caplog.set_level(logging.DEBUG)
    with serving(behaviour) as server:
        proposal = proposal_of(server.url, timeout=0.5 if behaviour is hangs else 20)
    assert proposal.config == LATEST
    assert "the previous config is kept" in (proposal.fallback or "")
    assert reason in (proposal.fallback or "")
    assert server.asked
    assert KEY not in proposal.model_dump_json() + caplog.text
    assert Proposal.model_validate_json(proposal.model_dump_json()) == proposal


def test_with_stop_an_endpoint_that_fails_stops_the_run_with_the_reason():
    with serving(sends("oops", 500)) as server:
        spec = spec_of(server.url, retries=0).model_copy(update={"on_failure": "stop"})
        with pytest.raises(EngineerError, match=r"could not answer: .*status 500.*on_failure=keep$"):
            designed(spec)


def test_before_a_run_an_endpoint_answers_one_small_question_with_the_options_of_a_design():
    with serving(answers("{", finish="length"), sends({"error": "no such model"}, 404)) as server:
        spec = spec_of(server.url, token_limit="max_completion_tokens")
        assert check_answers(spec, SPACE), "what it says does not matter"
        with pytest.raises(ModelError, match=r"no such model.*; check base_url \(usually ending in /v1\)"):
            check_answers(spec, SPACE)
    question = server.asked[0][0]
    assert len(str(question["messages"])) < 100
    assert (question["max_completion_tokens"], question["temperature"]) == (spec.max_tokens, spec.temperature)
    schema = question["response_format"]["json_schema"]["schema"]
    assert schema["properties"].keys() == answer_schema(SPACE)["properties"].keys()
    assert not check_answers(EngineerSpec(name="frontier"), SPACE), "nobody to ask"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "model: expected the name of a model"),
        ({"model": "m", "timeout": 0}, "timeout: Input should be greater than 0"),
        ({"model": "m", "base_url": f"https://{KEY}@host/v1"}, "base_url: expected an address as"),
        ({"model": "m", "api_key": KEY}, "there is no 'api_key'; did you mean 'api_key_env'?"),
        ({"bearer": KEY}, "there is no 'bearer'; known are base_url, model, api_key_env, "),
    ],
)
def test_options_that_make_no_sense_are_refused_and_a_key_among_them_is_not_repeated(options, reason: str):
    with pytest.raises(ConfigError) as refused:
        resolve(EngineerSpec(name="openai", options=options), SPACE, 4)
    assert str(refused.value).startswith("engineer.options of engineer 'openai': ")
    assert reason in str(refused.value)
    assert KEY not in str(refused.value)
