"""The shipped base policy is what its model card says."""

from collections.abc import Callable

import numpy as np
import pytest
from support.boards import boards_config, sample_boards
from support.designs import random_context
from support.presets import needs_reasoning_gym

from engineer.answer import answer_schema, parse_answer, project
from engineer.context import DesignContext
from engineer.prompt import design_prompt
from envgen.dataset import USUAL
from envgen.estimates import Difference
from envgen.mapf.prompts import PromptStyle
from envgen.seeds import generator
from envgen.space import Space
from infra.config.preset import load_preset
from policy.chat.contract import Sampling, ask
from policy.chat.transformers_model import TransformersModel
from policy.evaluation import evaluate
from policy.rollouts import breakdown_of

slow = pytest.mark.slow


@pytest.fixture(scope="module")
def base() -> TransformersModel:
    return TransformersModel("tiny", batch_size=128, dtype="float32")


@pytest.fixture(scope="module")
def solver() -> TransformersModel:
    """Of puzzles."""
    return TransformersModel("tiny-puzzles", batch_size=128, dtype="float32")


def test_it_solves_most_boards_without_waits_and_a_third_of_the_others(base):
    preset = load_preset("tiny")
    sampling = Sampling(max_tokens=preset.max_answer_tokens)
    instances = preset.validation.draw(preset.task)[::2]
    rollouts = evaluate(base, USUAL.load(), instances, PromptStyle.COMPACT, sampling)
    counts = breakdown_of(USUAL.load(), rollouts).overall
    parts = counts.split("wait_required")
    assert parts is not None
    waiting, moving = parts
    assert moving.valid_rate.value > 0.9
    assert 0.25 < waiting.valid_rate.value < 0.45


def test_it_knows_larger_maps_and_more_agents(base):
    rates = {}
    for agents, size in ((2, 8), (3, 5), (4, 6)):
        config = boards_config({size: (1, 0.3, 0)})
        instances = sample_boards(config, 60, agents=agents, seed=992)
        rollouts = evaluate(base, USUAL.load(), instances, PromptStyle.COMPACT, Sampling(max_tokens=128))
        rates[agents, size] = sum(rollout.verdict.valid for rollout in rollouts) / len(rollouts)
    assert rates[2, 8] > 0.6
    assert rates[3, 5] > 0.6
    assert rates[4, 6] > 0.3


@slow
@needs_reasoning_gym
def test_of_nine_puzzles_it_solves_three_mostly_three_sometimes_three_hardly_ever(solver):
    preset = load_preset("tiny-puzzles")
    sampling = Sampling(max_tokens=preset.max_answer_tokens)
    instances = preset.validation.draw(preset.task)
    rollouts = evaluate(solver, preset.task, instances, preset.prompt_style, sampling)
    counts = breakdown_of(preset.task, rollouts).strata
    rates = [counts[name].valid / counts[name].n for name in preset.space.names]
    assert len(rates) == 9
    assert all(rate > 0.9 for rate in rates[:3])
    assert all(0.1 < rate < 0.7 for rate in rates[3:6])
    assert all(rate < 0.05 for rate in rates[6:])


@slow
@pytest.mark.parametrize(("modules", "share"), [("V1", 0.95), ("V6", 0.95), ("V6W", 0.9)])
def test_it_designs_boards_for_the_sizes_that_are_solved_half_of_the_time(base, modules: str, share: float):
    assert designed(base, load_preset("tiny").space, modules) >= share


@slow
@needs_reasoning_gym
def test_it_designs_puzzles_likewise(solver):
    assert designed(solver, load_preset("tiny-puzzles").space, "V6W", after_training) >= 0.9


def after_training(rng: np.random.Generator, space: Space) -> DesignContext:
    """A context with what a run knows of its last training too."""
    context = random_context(rng, space)
    change = Difference(value=0.03, low=-0.03, high=0.09, p=0.3)
    update = {"change": dict.fromkeys(context.space.names, change)}
    update |= {"zero_variance": dict.fromkeys(context.space.names, 0.4)}
    return context.model_copy(update={"current": context.current.model_copy(update=update)})


def designed(
    model: TransformersModel,
    space: Space,
    modules: str,
    draw: Callable[[np.random.Generator, Space], DesignContext] = random_context,
) -> float:
    """Return the share of answers to unseen design questions that give most data to the stratum whose valid
    rate is nearest one half."""
    rng = generator(8, "unseen designs")
    contexts = [draw(rng, space) for _ in range(40)]
    sampling = Sampling(max_tokens=192, json_schema=answer_schema(space))
    questions = [ask(design_prompt(context, modules)) for context in contexts]
    right = 0
    for context, completion in zip(contexts, model.complete(questions, sampling), strict=True):
        config, _ = project(parse_answer(completion.text, space)[1], space, context.current.config)
        strata = context.current.breakdown.strata
        distance = {name: abs(part.valid / part.n - 0.5) for name, part in strata.items()}
        nearest = min(distance, key=lambda name: distance[name])
        most = max(part.data_ratio for part in config.strata.values())
        right += config.strata[nearest].data_ratio >= most - 0.01
    return right / len(contexts)
