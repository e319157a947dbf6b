import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.boards import board

from envgen.mapf.environment import VOCABULARY
from envgen.mapf.prompts import PromptStyle, answer, prompt
from envgen.mapf.solver.solve import solve
from policy.checkpoints import SHIPPED
from policy.tiny.new_model import END, build_tokenizer

TOKENIZER = build_tokenizer([prompt(board("parallel"), PromptStyle.COMPACT)] * 30, VOCABULARY)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.text())
def test_any_text_survives_the_round_trip(text):
    clean = "".join(c for c in text if not 0xD800 <= ord(c) <= 0xDFFF)
    assert TOKENIZER.decode(TOKENIZER(clean)["input_ids"], clean_up_tokenization_spaces=False) == clean


def test_a_cell_is_one_token_and_an_answer_costs_one_token_a_cell():
    solution = solve(board("parallel"))
    assert solution is not None
    text = answer(solution.plan)
    cells = sum(map(len, solution.plan))
    assert len(TOKENIZER(text)["input_ids"]) == cells + len(solution.plan)


def test_the_chat_template_ends_with_the_turn_of_the_assistant():
    shown = TOKENIZER.apply_chat_template(
        [{"role": "user", "content": "Solve 3x3."}], tokenize=False, add_generation_prompt=True
    )
    assert shown == f"<|user|>Solve 3x3.{END}<|assistant|>"


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("What is 120 + 7?", ["What is ", "1", "2", "0", " + ", "7", "?"]),
        ("0.25 of 41%, then 0.251", ["0.25", " of ", "41%", ", then ", "0", ".", "2", "5", "1"]),
        ("1.00 and 3.14", ["1.00", " and ", "3", ".", "1", "4"]),
        ("10.25, 1000%", ["1", "0", ".", "2", "5", ", ", "1", "0", "0", "0", "%"]),
    ],
)
def test_without_words_of_the_environment_digits_are_single_and_two_digit_decimals_whole(
    text: str, pieces: list[str]
):
    tokenizer = build_tokenizer([text], min_count=1)
    found = [tokenizer.decode([token]) for token in tokenizer(text)["input_ids"]]
    assert found == pieces


def test_the_shipped_tokenizer_keeps_the_same_pieces_whole():
    shipped, ours = (
        json.loads(text)
        for text in (
            (SHIPPED["tiny"] / "tokenizer.json").read_text(),
            build_tokenizer([], VOCABULARY).backend_tokenizer.to_str(),
        )
    )
    assert shipped["pre_tokenizer"] == ours["pre_tokenizer"]
    known = shipped["model"]["vocab"]
    assert {piece: known.get(piece) for piece in ours["model"]["vocab"]} == ours["model"]["vocab"]
