import pytest
from boards import detour, draw_instances, off_the_grid, optimal, unfinished
from pydantic import ValidationError

from envgen.dataset import to_table
from envgen.errors import DataError
from envgen.prompts import PromptStyle
from envgen.verifier import verify
from policy.rewards import RewardWeights, reward_functions, terms

INSTANCES = draw_instances()
ROWS = to_table(INSTANCES, PromptStyle.BOARD).to_pylist()
ANSWERS = {
    "optimal": (optimal, (1.0, 1.0, 1.0)),
    "valid": (detour, (1.0, 1.0, 0.0)),
    "wrong": (off_the_grid, (1.0, 0.0, 0.0)),
    "unfinished": (unfinished, (1.0, 0.0, 0.0)),
    "unreadable": (lambda instance: "Agent 0: left, then right", (0.0, 0.0, 0.0)),
    "nothing": (lambda instance: "", (0.0, 0.0, 0.0)),
}


@pytest.mark.parametrize(("respond", "expected"), ANSWERS.values(), ids=list(ANSWERS))
def test_an_answer_earns_its_terms(respond, expected: tuple[float, float, float]):
    for instance in INSTANCES:
        assert terms(verify(instance, respond(instance))) == expected


@pytest.mark.parametrize(("respond", "expected"), ANSWERS.values(), ids=list(ANSWERS))
def test_the_reward_functions_say_the_same_of_conversations_and_of_texts(respond, expected: tuple[float, float, float]):
    texts = [respond(i) for i in INSTANCES]
    conversations = [[{"role": "user", "content": "?"}, {"role": "assistant", "content": text}] for text in texts]
    for function, value in zip(reward_functions(), expected, strict=True):
        assert function(completions=texts, instance=ROWS) == [value] * len(ROWS)
        assert function(completions=conversations, instance=ROWS, prompts=["?"] * len(ROWS), trainer_state=None) == [value] * len(ROWS)


def test_the_reward_functions_come_in_the_order_of_the_weights():
    assert [f.__name__ for f in reward_functions()] == list(RewardWeights.model_fields) == ["format", "valid", "optimal"]


def test_each_answer_is_judged_on_its_own_board():
    valid = reward_functions()[1]
    texts = [optimal(i) for i in INSTANCES]
    assert valid(completions=texts, instance=ROWS) == [1.0] * len(ROWS)
    assert 0.0 in valid(completions=texts[1:] + texts[:1], instance=ROWS)


def test_a_verifier_that_cannot_judge_is_an_error_and_not_a_reward_of_0():
    for broken in ({**ROWS[0], "starts": ROWS[0]["starts"][:1]}, {**ROWS[0], "plan": [["FLY"], ["WAIT"]]}, {**ROWS[0], "size": 99}):
        for function in reward_functions():
            with pytest.raises(DataError, match="training row: not an instance"):
                function(completions=[optimal(INSTANCES[0])], instance=[broken])


def test_as_many_answers_as_boards_are_needed():
    with pytest.raises(ValueError, match=r"shorter|longer"):
        reward_functions()[0](completions=["x"], instance=ROWS)


def test_weights_are_never_negative_and_their_names_are_fixed():
    with pytest.raises(ValidationError):
        RewardWeights(valid=-0.1)
    with pytest.raises(ValidationError):
        RewardWeights.model_validate({"speed": 1})
