"""What holds in every environment of ours: what is read of a completion, and how knobs are drawn."""

import time
from collections import Counter
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import chi2_contingency

from envgen import table
from envgen.environment import Environment, FaultCount, Instance, Source
from envgen.errors import ConfigError
from envgen.module import skeleton
from envgen.registry import ENVIRONMENTS, EnvironmentSpec
from envgen.table.verifiers import find_python
from policy.grpo.rewards import DEFAULT_WEIGHTS, reward_functions

SUM = {"name": "sums", "generator": "chain_sum", "settings": {"terms": [2, 4], "digits": [2, 5]}}
WAY = {"name": "ways", "generator": "shortest_path", "settings": {"side": [4, 8], "infeasible_ratio": [0, 1]}}
STRATA: dict[str, tuple[dict, dict[str, dict[str, float]]]] = {
    "mapf-frozenlake": ({}, {"3": {"hole_ratio": 0.2, "wait_ratio": 0.5}}),
    "sums": ({}, {"3": {"digits": 3.5, "carry_ratio": 0.25}}),
    "reasoning-gym": (
        {"strata": [SUM, WAY]},
        {"sums": {"terms": 2.5, "digits": 3.5}, "ways": {"side": 5.5, "infeasible_ratio": 0.5}},
    ),
    "dataset": (
        {"source": str(Path(table.__file__).with_name("skeleton.jsonl")), "strata": {"column": "level"}},
        {"easy": {}},
    ),
    "module": ({"file": skeleton.__file__}, {"short": {"digits": 2.5}}),
    "verifiers": (
        {"source": str(Path(table.__file__).with_name("verifiers_skeleton.py")), "answer": "answer"},
        {"verifiers_skeleton": {}},
    ),
}
"""Options of each environment of ours, and knobs of some of its strata."""


@pytest.fixture(scope="module", params=STRATA)
def environment(request: pytest.FixtureRequest) -> Environment:
    if request.param == "reasoning-gym" and not find_spec("reasoning_gym"):
        pytest.skip("reasoning-gym is not installed")
    if request.param == "verifiers":
        try:
            find_python()
        except ConfigError:
            pytest.skip("no interpreter has verifiers 0.4")
    return EnvironmentSpec(name=request.param, options=STRATA[request.param][0]).resolved().load()


def draw(environment: Environment, count: int, seed: int = 0) -> list[Instance]:
    strata = STRATA[environment.name][1]
    parts = (environment.generate(*part, count, Source(seed), frozenset()) for part in strata.items())
    return [instance for part in parts for instance in part.instances]


def test_no_environment_of_ours_is_left_out():
    assert STRATA.keys() == ENVIRONMENTS.ours.keys()


NOTHING = (
    "<think>{}",
    "<think>x</think>{}<think>",
    "<think>{}</think>",
    "{}</think> ",
    "<answer>{}</answer><think>",
)
WRONG = ("<think>\n{}\n</think>\nI do not know.", "<think><answer>{}</answer></think> no", "{}</think>no")
RIGHT = ("<think>\nhm\n</think>\n\n{}", "hm</think>{}", "<think><think>no</think> no</think>\n{}", "{}")


def test_only_what_follows_the_last_thinking_is_an_answer(environment: Environment):
    instance = draw(environment, 1)[0]
    forms = [form.format(environment.reference(instance)) for form in (*NOTHING, *WRONG, *RIGHT)]
    verdicts = environment.judge([instance] * len(forms), forms)
    assert [v.valid for v in verdicts] == [False] * len(NOTHING + WRONG) + [True] * len(RIGHT)
    assert {v.category for v in verdicts[: len(NOTHING)]} == {environment.space.categories[0]}
    functions = reward_functions(environment, DEFAULT_WEIGHTS, FaultCount(environment.space), [instance])
    _, valid, _ = (f(completions=forms, index=[0] * len(forms)) for f in functions)
    assert valid == [float(v.valid) for v in verdicts]
    for form, verdict in zip(forms, verdicts, strict=True):
        environment.picture(instance, form, verdict)


def test_hostile_thinking_is_read_in_bounded_time(environment: Environment):
    instances = draw(environment, 1)[:1]
    begin = time.monotonic()
    for text in ("<think>", "</think>", "<think></think>", "<", "</think"):
        assert not environment.judge(instances, [text * 2_000_000])[0].valid
    assert time.monotonic() - begin < 10


def test_labels_and_whole_numbers_have_exact_counts_and_are_independent(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
):
    asked, draw_one = dict[str, dict[str, float]](), environment.generate_one

    def generate_one(stratum: str, knobs: dict[str, float], *rest: Any) -> Instance:
        instance = draw_one(stratum, knobs, *rest)
        asked[instance.id] = knobs
        return instance

    monkeypatch.setattr(environment, "generate_one", generate_one)
    for name, means in STRATA[environment.name][1].items():
        knobs = [knob for knob in environment.space[name].knobs if knob.label or knob.whole]
        if environment.name in ("mapf-frozenlake", "dataset", "verifiers"):
            assert len(knobs) < 2, "nothing to be independent of"
            continue
        rows = []
        for seed, count in ((0, 40), (1, 41), (2, 3)):
            drawn = environment.generate(name, means, count, Source(seed), frozenset()).instances
            again = environment.generate(name, means, count, Source(seed), frozenset()).instances
            assert drawn == again
            rows += [asked[instance.id] for instance in drawn]
            for knob in knobs:
                number = sum(row[knob.name] for row in rows[-count:])
                low = int(means[knob.name])
                assert number == low * count + round((means[knob.name] - low) * count)
        for first, second in combinations([knob.name for knob in knobs], 2):
            cells = Counter((row[first], row[second]) for row in rows)
            values = [sorted({row[knob] for row in rows}) for knob in (first, second)]
            table = [[cells[a, b] for b in values[1]] for a in values[0]]
            assert [len(table), len(table[0])] == [2, 2]
            result: Any = chi2_contingency(table, correction=False)
            assert result.pvalue > 0.05, (name, table)
