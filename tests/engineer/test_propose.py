import json
from datetime import UTC, datetime

import pytest
from contexts import DEFAULT, LATEST, SPACE, ListModel, as_it_is, assert_legal, design_context, designed
from support.boards import boards_config
from support.designs import answer_text

from engineer.answer import answer_schema
from engineer.context import NAMED
from engineer.contract import Proposal
from engineer.engineers.llm import MAX_QUOTED
from engineer.json_text import MAX_TEXT
from engineer.prompt import design_prompt
from engineer.spec import EngineerSpec
from envgen.config import EnvConfig
from envgen.errors import ModelError, SamplingError
from policy.chat.contract import Message

WANTED = boards_config({3: (0.4, 0.3, 0.5), 5: (0.6, 0.2, 0.25)})
GOOD = answer_text("More data for 5x5.", WANTED)
NEAR = boards_config({3: (0.3, 0.3, 0.5), 5: (0.7, 0.2, 0.25)})
NO_JSON = "the answer holds no JSON object"


def proposal_of(model: ListModel | None, seed=7, stage=2, fit=as_it_is, **spec: object) -> Proposal:
    checked = EngineerSpec.model_validate({"name": "checkpoint", **spec})
    return designed(checked, design_context(stage), model, seed, fit)


@pytest.mark.parametrize("engineer", ["checkpoint", "base"])
def test_a_good_answer_becomes_the_next_config(engineer: str):
    model = ListModel(GOOD, "never asked for")
    proposal = proposal_of(model, name=engineer)
    assert (proposal.config, proposal.rationale) == (WANTED, "More data for 5x5.")
    assert proposal.proposed == json.loads(GOOD)["config"]
    assert (proposal.engineer, proposal.stage, proposal.context) == (engineer, 2, "V6")
    assert (proposal.changes, proposal.fallback) == ((), None)
    assert [(a.text, a.error) for a in proposal.attempts] == [(GOOD, None)]
    assert len(model.asked) == 1


@pytest.mark.parametrize("context", [*NAMED, "FGHDSTWE"])
def test_a_model_is_asked_the_question_of_its_context(context: str):
    model = ListModel(GOOD)
    proposal = proposal_of(model, context=context, gate="rollback", max_tokens=99, temperature=0.5)
    [(conversation, sampling)] = model.asked
    question = design_prompt(design_context(), context, "rollback")
    assert conversation == (Message(role="user", content=question),)
    assert proposal.prompt == conversation[0].content
    assert (sampling.max_tokens, sampling.temperature) == (99, 0.5)
    assert sampling.json_schema == answer_schema(SPACE)


def test_without_schema_decoding_the_answer_is_free_text():
    model = ListModel(f"Let me think. {GOOD} I hope this helps.")
    assert proposal_of(model, schema_decoding=False).config == WANTED
    assert model.asked[0][1].json_schema is None


def test_an_unreadable_answer_is_repaired_in_the_same_conversation():
    model = ListModel("no", GOOD)
    proposal = proposal_of(model, temperature=0.5)
    assert (proposal.config, proposal.rationale, proposal.fallback) == (WANTED, "More data for 5x5.", None)
    assert [(a.text, a.error) for a in proposal.attempts] == [("no", NO_JSON), (GOOD, None)]
    (first, sampling), (second, of_repair) = model.asked
    assert of_repair == sampling.model_copy(update={"seed": of_repair.seed})
    again = "Answer again with the JSON only, in the form that was asked for."
    request = Message(role="user", content=f"Your answer could not be used: {NO_JSON}. {again}")
    assert second == (*first, Message(role="assistant", content="no"), request)


@pytest.mark.parametrize("answers", [(GOOD,), ("no", GOOD), ("no", "no")])
def test_a_proposal_says_when_it_was_asked_and_for_how_many_tokens(answers: tuple[str, ...]):
    model, before = ListModel(*answers), datetime.now(UTC)
    proposal = proposal_of(model)
    assert [(a.prompt_tokens, a.completion_tokens) for a in proposal.attempts] == [(100, 7)] * len(answers)
    started = [a.started for a in proposal.attempts]
    assert started[0] >= before
    assert started == sorted(started)
    assert Proposal.model_validate_json(proposal.model_dump_json()) == proposal


def test_a_repair_quotes_no_more_than_the_beginning_of_an_answer():
    model = ListModel("x" * 10_000_000, GOOD)
    proposal = proposal_of(model)
    quoted = model.asked[1][0][1].content
    assert MAX_QUOTED - 5 < len(quoted) <= MAX_QUOTED
    assert quoted.startswith("xxx")
    assert quoted.endswith("more characters]")
    assert len(proposal.attempts[0].text) <= MAX_TEXT


def test_an_empty_answer_is_quoted_as_nothing():
    model = ListModel(" \n", GOOD)
    proposal_of(model)
    assert model.asked[1][0][1].content == "(nothing)"


def test_after_one_repair_the_previous_config_is_kept_with_both_errors():
    model = ListModel("no", '{"config": {"sizes": {"3": {}}', "never asked for")
    proposal = proposal_of(model)
    assert proposal.config == LATEST
    assert [a.text for a in proposal.attempts] == ["no", '{"config": {"sizes": {"3": {}}']
    first, second = (a.error for a in proposal.attempts)
    assert proposal.fallback == (
        "the model could not repair its answer, the previous config is kept; "
        f"answer 1 could not be read: {first}; answer 2 could not be read: {second}"
    )
    assert (proposal.proposed, proposal.rationale) == (None, "")
    assert (proposal.prompt_tokens, proposal.completion_tokens) == (200, 14)
    assert model.answers == ["never asked for"]


def test_the_error_says_that_an_answer_was_cut_off():
    model = ListModel({"text": '{"rationale": "', "finish_reason": "length"}, GOOD)
    proposal = proposal_of(model, max_tokens=99)
    assert [a.error for a in proposal.attempts] == [f"{NO_JSON}; it was cut off at 99 tokens", None]
    assert [a.finish_reason for a in proposal.attempts] == ["length", "stop"]
    assert "it was cut off at 99 tokens" in model.asked[1][0][2].content


def test_a_repair_that_does_not_fit_the_model_keeps_the_first_error_in_the_reason():
    class Small(ListModel):
        def complete(self, conversations, sampling, progress=None):
            if len(conversations[0]) > 1:
                raise ModelError("a prompt of 2000 tokens exceeds the model's 1024")
            return super().complete(conversations, sampling)

    proposal = proposal_of(Small("no"))
    assert proposal.config == LATEST
    why = "the model could not answer, the previous config is kept: a prompt of 2000 tokens exceeds the"
    assert proposal.fallback == f"{why} model's 1024; answer 1 could not be read: {NO_JSON}"
    assert [a.text for a in proposal.attempts] == ["no"]


def test_what_projection_changed_is_recorded_beside_what_was_proposed():
    over = {"sizes": {"3": {"data_ratio": 0.4, "hole_ratio": 0.9, "wait_ratio": 0.5}}}
    proposal = proposal_of(ListModel(json.dumps({"config": over})))
    assert_legal(proposal.config, SPACE)
    assert proposal.proposed == over
    assert proposal.changes == (
        "3x3 hole_ratio 0.9 was clamped to 0.2..0.4",
        "5x5 data_ratio was missing or no number, the previous 0.3 was kept",
        "5x5 hole_ratio was missing or no number, the previous 0.2 was kept",
        "5x5 wait_ratio was missing or no number, the previous 0.1 was kept",
        "data_ratio summed to 0.7 and was scaled to 1",
    )


def test_what_fitting_changed_is_recorded_after_what_projection_changed():
    fitted = []

    def fit(config: EnvConfig) -> tuple[EnvConfig, list[str]]:
        fitted.append(config)
        return NEAR, ["map size 3 is short", "so 5 got more"]

    proposal = proposal_of(ListModel(GOOD.replace('"hole_ratio":0.20', '"hole_ratio":0.10')), fit=fit)
    assert fitted == [WANTED]
    clamped = "5x5 hole_ratio 0.1 was clamped to 0.2..0.4"
    assert proposal.changes == (clamped, "map size 3 is short", "so 5 got more")
    assert (proposal.config, proposal.fallback) == (NEAR, None)


@pytest.mark.parametrize("answer", [answer_text("Keep it.", LATEST), "no"])
def test_a_config_that_is_kept_is_fitted_too_since_the_next_stage_draws_with_another_seed(answer: str):
    def fit(config: EnvConfig) -> tuple[EnvConfig, list[str]]:
        assert config == LATEST
        return NEAR, ["map size 3 is short"]

    proposal = proposal_of(ListModel(answer, answer), fit=fit)
    assert (proposal.config, proposal.changes) == (NEAR, ("map size 3 is short",))
    assert (proposal.fallback is None) == (answer != "no")


@pytest.mark.parametrize("even_the_previous", [False, True])
def test_a_config_of_which_nothing_can_be_drawn_keeps_the_previous_one(even_the_previous: bool):
    def fit(config: EnvConfig) -> tuple[EnvConfig, list[str]]:
        if config != LATEST or even_the_previous:
            raise SamplingError("every map size is short")
        return config, []

    answer = GOOD.replace('"hole_ratio":0.20', '"hole_ratio":0.10')
    proposal = proposal_of(ListModel(answer), fit=fit)
    assert (proposal.config, proposal.changes) == (LATEST, ())
    why = "no data set can be drawn, the previous config is kept: every map size is short"
    assert proposal.fallback == why
    assert proposal.proposed == json.loads(answer)["config"]
    assert proposal.rationale == "More data for 5x5."


def test_the_same_seed_and_stage_ask_with_the_same_draw_and_others_do_not():
    def seeds(seed: int, stage: int) -> list[int]:
        model = ListModel("no", GOOD)
        proposal_of(model, seed=seed, stage=stage)
        return [sampling.seed for _, sampling in model.asked]

    assert seeds(7, 2) == seeds(7, 2)
    assert len({*seeds(7, 2), *seeds(8, 2), *seeds(7, 1)}) == 6


def test_the_fixed_engineer_keeps_the_config_and_asks_nobody():
    proposal = proposal_of(None, name="fixed", stage=0)
    assert (proposal.config, proposal.attempts, proposal.fallback) == (DEFAULT, (), None)
    assert (proposal.prompt, proposal.prompt_tokens) == ("", 0)


def test_the_random_engineer_draws_anew_for_each_seed_and_stage():
    draws = [(seed, stage) for seed in (0, 1, 2) for stage in (0, 1, 2)]
    configs = [proposal_of(None, name="random", seed=seed, stage=stage).config for seed, stage in draws]
    assert len(set(map(str, configs))) == len(draws)


def test_a_model_that_may_think_answers_freely_and_only_its_repair_is_decoded_under_the_schema():
    draft = GOOD.replace("0.40", "0.10")
    model = ListModel(f"<think>{draft}</think> no", f"<think>{draft}</think>{GOOD}")
    proposal = proposal_of(model, thinking=True)
    assert proposal.config == WANTED
    assert [sampling.json_schema for _, sampling in model.asked] == [None, answer_schema(SPACE)]
    assert model.asked[1][0][1].content == " no"
    characters = len(f"<think>{draft}</think>")
    assert [a.reasoning_tokens for a in proposal.attempts] == [
        round(7 * characters / (characters + rest)) for rest in (3, len(GOOD))
    ]


def test_the_thoughts_that_a_server_reports_are_stored_and_a_cut_off_draft_is_not_read():
    told = {"text": GOOD, "finish_reason": "length", "reasoning": "Hm.", "reasoning_tokens": 5}
    draft = {"text": f"Maybe {GOOD}, or", "finish_reason": "length"}
    proposal = proposal_of(ListModel(draft, told), thinking=True)
    why = "the answer ends before its thoughts do; it was cut off at 1024 tokens"
    assert proposal.attempts[0].error == why
    assert [(a.reasoning, a.reasoning_tokens) for a in proposal.attempts] == [("", 0), ("Hm.", 5)]
    assert proposal.config == WANTED


def test_evidence_is_checked_against_the_numbers_of_the_context():
    claims = [
        ("5", "valid_rate", 0.5, 0.5, True),
        ("5x5", "valid", "50%", 0.5, True),
        ("5", "Valid Rate", 50, 0.5, True),
        ("5", "conflict", 15, 0.375, True),
        ("5", "conflict", 0.38, 0.375, True),
        ("3", "valid_rate", 0.9, 1.0, False),
        ("5", "hole_ratio", 0.2, 0.2, True),
        ("5", "data_ratio", 0.4, 0.3, False),
        ("7", "valid_rate", 0.5, None, False),
        ("5", "mood", 1, None, False),
        ("5", "valid_rate", None, 0.5, False),
    ]
    evidence = [dict(zip(("stratum", "metric", "value"), claim, strict=False)) for claim in claims]
    answer = json.dumps({"rationale": "x", "edits": {"5": {"data_ratio": 0.6}}, "evidence": [*evidence, 3]})
    proposal = proposal_of(ListModel(answer))
    assert proposal.config == boards_config({3: (0.4, 0.35, 0.75), 5: (0.6, 0.2, 0.1)})
    assert [(e.true, e.agrees) for e in proposal.evidence] == [claim[3:] for claim in claims]
    assert Proposal.model_validate_json(proposal.model_dump_json()) == proposal
