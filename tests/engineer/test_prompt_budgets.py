"""What is cut from a prompt to stay within the budgets."""

import pytest
from contexts import (
    boards,
    breakdown,
    counts,
    design_context,
    env_config,
    measured,
    measured_context,
    repeatable,
)
from hypothesis import given
from hypothesis import strategies as st
from prompt_texts import WORDINGS

from engineer.context import VARIANTS, DesignContext, Module, StageRecord
from engineer.prompt import BUDGETS, design_prompt, module_text, tokens
from engineer.spec import Wording
from envgen.breakdown import Difference
from policy.checkpoints import TINY_DIRECTORY


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        (" \n\t", 0),
        ("stage", 2),
        ("0.25", 4),
        ("10x10: 5%", 8),
        ("é漢", 5),
        ("a_b", 3),
        ("\ud800", 1),
    ],
)
def test_tokens_are_digits_marks_and_quarters_of_words(text: str, count: int):
    assert tokens(text) == count


def long_context(sizes: tuple[int, ...], stage: int, **more: object) -> DesignContext:
    """The context after many stages; valid rates fall with the map size."""
    space, names = boards(*sizes, low=0.2, high=0.4), list(map(str, sizes))
    configs = [
        env_config({size: (1 / len(sizes), holes, waits) for size in sizes})
        for holes, waits in ((0.35, 0.75), (0.25, 0.5))
    ]
    seen = breakdown({size: counts(1000, 1000 - 95 * size, 11) for size in sizes})
    change = dict.fromkeys(names, Difference(value=-0.1, low=-0.15, high=-0.12))
    records = [
        StageRecord(
            stage=n,
            config=configs[n % 2],
            breakdown=seen,
            zero_variance=dict.fromkeys(names, 0.75),
            change=change,
        )
        for n in range(stage + 1)
    ]
    context = DesignContext(
        space=space,
        current=records[-1],
        history=tuple(records[:-1]),
        stages=100,
        instances=40_000,
        epochs=2.5,
    )
    return context.model_copy(update={"training": measured_context().training, **more})


@pytest.mark.parametrize("wording", WORDINGS)
def test_a_long_history_loses_its_oldest_stages_and_says_so(wording: Wording):
    context = long_context((3, 4, 5, 6), 30)
    text, cuts = module_text(Module.HISTORY, context, wording)
    shown = [n for n in range(31) if f"Stage {n}," in text or f"Stage {n}:" in text]
    assert shown == list(range(shown[0], 30)) + ([30] if wording == "full" else [])
    assert 0 < shown[0] < 28
    assert text.splitlines()[1] == f"{shown[0]} earlier stages left out."
    assert cuts == (
        (
            f"history: {shown[0]} earlier stages left out, its budget is {BUDGETS[Module.HISTORY][wording]}"
            " tokens"
        ),
    )
    assert design_prompt("V3", context, wording).cuts == cuts


def test_three_earlier_stages_of_every_map_size_and_all_failures_are_never_cut():
    context = long_context(tuple(range(3, 11)), 3)
    seen = context.current.breakdown.strata
    sizes = {int(name): measured(part, 100, excess_cost=10.25) for name, part in seen.items()}
    current = context.current.model_copy(update={"breakdown": breakdown(sizes)})
    for wording in WORDINGS:
        assert design_prompt("V3", context.model_copy(update={"current": current}), wording).cuts == ()


@pytest.mark.parametrize("wording", WORDINGS)
def test_a_long_reason_loses_its_end_at_a_word(wording: Wording):
    words = [f"reason{'s' * (n % 7)}" for n in range(300)]
    text, cuts = module_text(Module.RATIONALE, design_context(rationale=" ".join(words)), wording)
    kept, _, note = text.partition(" ago: ")[2].partition(" (")
    count = len(kept.split())
    assert kept.split() == words[:count]
    assert note == f"{300 - count} words left out)"
    assert cuts[0].startswith(f"rationale: {300 - count} words left out")


@pytest.mark.parametrize("wording", WORDINGS)
def test_failures_lose_the_sizes_nearest_to_all_or_nothing_and_name_them(
    wording: Wording, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(BUDGETS[Module.FAILURES], wording, 300)
    text, cuts = module_text(Module.FAILURES, long_context(tuple(range(3, 11)), 0), wording)
    # Valid are 71 % of 3x3, 62, 52, 43, 34, 24, 14 and 5 % of 10x10.
    left_out = (
        "3 map sizes left out: 8x8, 9x9, 10x10"
        if wording == "compact"
        else "6 map sizes left out: 3x3, 4x4, 7x7, 8x8, 9x9, 10x10"
    )
    assert text.splitlines()[-1] == f"{left_out}."
    assert cuts == (f"failures: {left_out}, its budget is 300 tokens",)
    assert [line.split("x")[0] for line in text.splitlines()[1:-1]] == (
        list("34567") if wording == "compact" else list("56")
    )


@pytest.mark.parametrize("wording", WORDINGS)
def test_training_details_lose_their_last_hyperparameters(wording: Wording):
    options = {f"option_{n}": "x" * 40 for n in range(30)}
    context = design_context().model_copy(
        update={"training": {"algorithm": "GRPO", "hyperparameters": options}}
    )
    text, cuts = module_text(Module.TRAINING, context, wording)
    count = text.count("option_")
    assert all(f"option_{n} " in text for n in range(count))
    assert text.splitlines()[-1] == f"{30 - count} hyperparameters left out."
    assert cuts == (
        (
            f"training: {30 - count} hyperparameters left out, its budget is"
            f" {BUDGETS[Module.TRAINING][wording]} tokens"
        ),
    )


@repeatable
@given(
    st.integers(1, 60), st.integers(3, 10), st.text(st.characters(), max_size=600), st.sampled_from(WORDINGS)
)
def test_no_module_exceeds_its_budget(stage: int, largest: int, rationale: str, wording: Wording):
    context = long_context(tuple(range(3, largest + 1)), stage, previous_rationale=rationale)
    for module in Module:
        assert tokens(module_text(module, context, wording).text) <= BUDGETS[module][wording], module


def test_an_endless_word_and_a_megabyte_of_words_are_cut_in_no_time():
    assert module_text(Module.RATIONALE, design_context(rationale="x" * 1_000_000), "full").text.endswith(
        "(1 word left out)"
    )
    assert len(module_text(Module.RATIONALE, design_context(rationale="so " * 300_000), "full").text) < 1_000


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_compact_prompt_and_its_answer_fit_the_tiny_policy_at_stage_30(variant: str):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(TINY_DIRECTORY)
    # Words that it was not taught are one token a letter.
    context = long_context((3, 4, 5, 6), 30, previous_rationale="rethink everything " * 30)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": design_prompt(variant, context, "compact").text}],
        add_generation_prompt=True,
    )
    assert 100 < len(prompt["input_ids"]) <= 1024 - 160
