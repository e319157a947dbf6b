import json
from datetime import UTC, datetime

import pytest
from contexts import DEFAULT, LATEST, SPACE, ListModel, assert_legal, design_context, env_config
from support.designs import answer_text

from engineer.answer import answer_schema
from engineer.context import NAMED
from engineer.contract import Proposal
from engineer.engineers.llm import MAX_QUOTED
from engineer.json_text import MAX_TEXT
from engineer.prompt import design_prompt
from engineer.propose import design
from engineer.spec import EngineerSpec
from envgen.config import EnvConfig
from envgen.errors import ModelError, SamplingError
from policy.chat.contract import Message

WANTED = env_config({3: (0.4, 0.3, 0.5), 5: (0.6, 0.2, 0.25)})
GOOD = answer_text("More data for 5x5.", WANTED)
OVER = (
    '{"rationale": "Too much.", "config": {"sizes": '
    '{"3": {"data_ratio": 0.4, "hole_ratio": 0.9, "wait_ratio": 0.5}}}}'
)


def as_it_is(config: EnvConfig) -> tuple[EnvConfig, list[str]]:
    return config, []


def proposal_of(
    model: ListModel | None, fit=as_it_is, seed: int = 7, stage: int = 2, **spec: object
) -> Proposal:
    checked = EngineerSpec.model_validate({"name": "checkpoint", **spec})
    return design(checked, design_context(stage), seed, model, fit)


@pytest.mark.parametrize("engineer", ["checkpoint", "base"])
def test_a_good_answer_becomes_the_next_config(engineer: str):
    model = ListModel(GOOD, "never asked for")
    proposal = proposal_of(model, name=engineer)
    assert proposal.config == WANTED
    assert proposal.rationale == "More data for 5x5."
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
    assert [(a.text, a.error) for a in proposal.attempts] == [
        ("no", "the answer holds no JSON object"),
        (GOOD, None),
    ]
    (first, sampling), (second, of_repair) = model.asked
    assert of_repair == sampling.model_copy(update={"seed": of_repair.seed})
    assert second[:1] == first
    assert [(m.role, m.content) for m in second[1:]] == [
        ("assistant", "no"),
        (
            "user",
            "Your answer could not be used: the answer holds no JSON object. Answer again with the JSON "
            "only, in the form that was asked for.",
        ),
    ]


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
    kept, _, note = proposal.attempts[0].text.partition(" [")
    assert len(proposal.attempts[0].text) <= MAX_TEXT
    assert note == f"{10_000_000 - len(kept)} more characters]"
    assert Proposal.model_validate_json(proposal.model_dump_json()) == proposal


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
    class Cut(ListModel):
        def complete(self, conversations, sampling, progress=None):
            return [
                c.model_copy(update={"finish_reason": "length"})
                for c in super().complete(conversations, sampling)
            ]

    model = Cut('{"rationale": "', GOOD)
    proposal = proposal_of(model, max_tokens=99)
    assert [(a.error, a.finish_reason) for a in proposal.attempts] == [
        ("the answer holds no JSON object; it was cut off at 99 tokens", "length"),
        (None, "length"),
    ]
    assert "it was cut off at 99 tokens" in model.asked[1][0][2].content


def test_a_repair_that_does_not_fit_the_model_keeps_the_first_error_in_the_reason():
    class Small(ListModel):
        def complete(self, conversations, sampling, progress=None):
            if len(conversations[0]) > 1:
                raise ModelError("a prompt of 2000 tokens exceeds the model's 1024")
            return super().complete(conversations, sampling)

    proposal = proposal_of(Small("no"))
    assert proposal.config == LATEST
    assert proposal.fallback == (
        "the model could not answer, the previous config is kept: "
        "a prompt of 2000 tokens exceeds the model's 1024; "
        "answer 1 could not be read: the answer holds no JSON object"
    )
    assert [a.text for a in proposal.attempts] == ["no"]


def test_what_projection_changed_is_recorded_beside_what_was_proposed():
    proposal = proposal_of(ListModel(OVER))
    assert_legal(proposal.config, SPACE)
    assert proposal.proposed == json.loads(OVER)["config"]
    assert proposal.changes == (
        "3x3 hole_ratio 0.9 was clamped to 0.2..0.4",
        "5x5 data_ratio was missing or no number, the previous 0.3 was kept",
        "5x5 hole_ratio was missing or no number, the previous 0.2 was kept",
        "5x5 wait_ratio was missing or no number, the previous 0.1 was kept",
        "data_ratio summed to 0.7 and was scaled to 1",
    )


def test_what_fitting_changed_is_recorded_after_what_projection_changed():
    near = env_config({3: (0.3, 0.3, 0.5), 5: (0.7, 0.2, 0.25)})
    fitted = []

    def fit(config: EnvConfig) -> tuple[EnvConfig, list[str]]:
        fitted.append(config)
        return near, ["map size 3 is short", "so 5 got more"]

    proposal = proposal_of(ListModel(GOOD.replace('"hole_ratio":0.20', '"hole_ratio":0.10')), fit)
    assert fitted == [WANTED]
    assert proposal.config == near
    assert proposal.changes == (
        "5x5 hole_ratio 0.1 was clamped to 0.2..0.4",
        "map size 3 is short",
        "so 5 got more",
    )
    assert proposal.fallback is None


@pytest.mark.parametrize("answer", [answer_text("Keep it.", LATEST), "no"])
def test_a_config_that_is_kept_is_fitted_too_since_the_next_stage_draws_with_another_seed(answer: str):
    near = env_config({3: (0.3, 0.3, 0.5), 5: (0.7, 0.2, 0.25)})

    def fit(config: EnvConfig) -> tuple[EnvConfig, list[str]]:
        assert config == LATEST
        return near, ["map size 3 is short"]

    proposal = proposal_of(ListModel(answer, answer), fit)
    assert (proposal.config, proposal.changes) == (near, ("map size 3 is short",))
    assert (proposal.fallback is None) == (answer != "no")


@pytest.mark.parametrize("even_the_previous", [False, True])
def test_a_config_of_which_nothing_can_be_drawn_keeps_the_previous_one(even_the_previous: bool):
    def fit(config: EnvConfig) -> tuple[EnvConfig, list[str]]:
        if config != LATEST or even_the_previous:
            raise SamplingError("every map size is short")
        return config, []

    answer = GOOD.replace('"hole_ratio":0.20', '"hole_ratio":0.10')
    proposal = proposal_of(ListModel(answer), fit)
    assert (proposal.config, proposal.changes) == (LATEST, ())
    assert (
        proposal.fallback == "no data set can be drawn, the previous config is kept: every map size is short"
    )
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
    assert proposal.config == DEFAULT
    assert (proposal.attempts, proposal.fallback, proposal.prompt) == ((), None, "")
    assert proposal.prompt_tokens == 0


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
    class Thinker(ListModel):
        def complete(self, conversations, sampling, progress=None):
            [answer] = super().complete(conversations, sampling)
            thoughts = {"reasoning": "Hm.", "reasoning_tokens": 5} if len(self.asked) > 1 else {}
            return [answer.model_copy(update={"finish_reason": "length", **thoughts})]

    proposal = proposal_of(Thinker(f"Maybe {GOOD}, or", GOOD), thinking=True)
    assert (
        proposal.attempts[0].error == "the answer ends before its thoughts do; it was cut off at 1024 tokens"
    )
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
    assert proposal.config == env_config({3: (0.4, 0.35, 0.75), 5: (0.6, 0.2, 0.1)})
    assert [(e.true, e.agrees) for e in proposal.evidence] == [claim[3:] for claim in claims]
    assert Proposal.model_validate_json(proposal.model_dump_json()) == proposal
