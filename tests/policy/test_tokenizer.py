import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.boards import board

from envgen.environment import Vocabulary
from envgen.mapf.prompts import PromptStyle, answer, prompt
from envgen.mapf.solver.solve import solve
from envgen.mapf.vocabulary import VOCABULARY
from envgen.reasoning_gym import VOCABULARY as OF_PUZZLES
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
def test_without_words_of_the_family_digits_are_single_and_two_digit_decimals_whole(
    text: str, pieces: list[str]
):
    tokenizer = build_tokenizer([text], min_count=1)
    found = [tokenizer.decode([token]) for token in tokenizer(text)["input_ids"]]
    assert found == pieces


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("tail backward =", ["t", "a", "i", "l", " backward ="]),
        ("liat", ["l", "i", "a", "t"]),
        ("sort ascending 52.0 -4.0 =", ["sort ascending ", "5", "2", ".0", " -", "4", ".0", " ="]),
        ("['-4.0', '52.0']", ["['-", "4", ".0', '", "5", "2", ".0']"]),
        ("down down right", ["down", " down", " right"]),
        ("infeasible", ["infeasible"]),
        ("path\n* O #\nX O O", ["path", "\n", "*", " O", " #", "\n", "X", " O", " ", "O"]),
        ("1 _ _\n_ 2 1", ["1", " ", "_", " ", "_", "\n", "_", " ", "2", " ", "1"]),
        ("rewrite A# #B =", ["rewrite", " A#", " #B", " ="]),
        ("palindrome of a b a =", ["palindrome of", " a", " b", " a", " ="]),
        ("12 - 7.25 =", ["1", "2", " - ", "7", ".", "2", "5", " ="]),
        (
            "short sums: data 0.12 (+0.05), digits 2.00, then valid 45%",
            [
                "short sums: ",
                "data ",
                "0.12",
                " (+",
                "0.05",
                "), ",
                "digits ",
                "2.00",
                ", then valid ",
                "45%",
            ],
        ),
        ('less data.","config":{"digits":3.00}}', ["less data.", '","config":{"digits":', "3.00", "}}"]),
    ],
)
def test_of_puzzles_letters_digits_and_cells_are_single_and_words_of_design_questions_whole(
    text: str, pieces: list[str]
):
    tokenizer = build_tokenizer([text], OF_PUZZLES, min_count=1)
    found = [tokenizer.decode([token]) for token in tokenizer(text)["input_ids"]]
    assert found == pieces


@pytest.mark.parametrize(("policy", "vocabulary"), [("tiny", VOCABULARY), ("tiny-puzzles", OF_PUZZLES)])
def test_the_shipped_tokenizer_keeps_the_same_pieces_whole(policy: str, vocabulary: Vocabulary):
    shipped, ours = (
        json.loads(text)
        for text in (
            (SHIPPED[policy] / "tokenizer.json").read_text(),
            build_tokenizer([], vocabulary).backend_tokenizer.to_str(),
        )
    )
    assert shipped["pre_tokenizer"] == ours["pre_tokenizer"]
    known = shipped["model"]["vocab"]
    assert {piece: known.get(piece) for piece in ours["model"]["vocab"]} == ours["model"]["vocab"]
