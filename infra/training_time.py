"""How long training takes, from one stated throughput a model: docs/engines.md."""

from collections.abc import Iterable
from math import inf
from pathlib import PurePath

from infra.comparison.spec import ComparisonSpec
from infra.config.preset import Preset
from policy.checkpoints import is_simulated
from policy.grpo.launch import process_count
from policy.grpo.train_spec import answer_tokens, deciding_options

THROUGHPUT = {
    ("Qwen3-0.6B", False): 29_800,
    ("Qwen3-1.7B", False): 18_700,
    ("Qwen3-4B", False): 8_700,
    ("Qwen3-4B", True): 5_800,
}
"""Model, and whether adapters are trained -> completion tokens that one H200 trains on in a second, measured
with random weights; several cards are taken to be as many times as fast."""


def stages_of(spec: ComparisonSpec) -> list[tuple[Preset, int]]:
    """Return the presets of a comparison's curricula and shared stages 0, each with its number of stages."""
    rest = [(child.preset, child.preset.stages - 1) for child in spec.children]
    return [*((root.preset, 1) for root in spec.roots), *rest]


def training_seconds(stages: Iterable[tuple[Preset, int]]) -> float | None:
    """Return the seconds of optimizer steps if all completions have full length, for presets with their
    numbers of stages; None if the throughput of a model is unknown."""
    total = 0.0
    for preset, count in stages:
        settings, processes = preset.training, process_count(preset.training)
        speed = THROUGHPUT.get((PurePath(preset.model).name, settings.lora is not None))
        if speed is None or not (plan := preset.plan()):
            return None
        answers = deciding_options(preset.trl, settings, processes)["answers_a_step"]
        tokens = plan.optimizer_steps * answers * answer_tokens(preset.trl)
        seconds = min(tokens, settings.max_tokens or inf) / (speed * processes)
        total += count * min(seconds, settings.max_seconds or inf)
    return total


def training_time(stages: Iterable[tuple[Preset, int]]) -> str:
    """Return the same in words."""
    stages = list(stages)
    if all(is_simulated(preset.model) for preset, _ in stages):
        return "no model is trained: the policy is a simulated learner"
    seconds = training_seconds(stages)
    if seconds is None:
        return "training time: known for Qwen3 models only"
    scope = "on H200 cards if all completions have full length, without generation and evaluation"
    return f"training time: {seconds / 3600:,.1f} h {scope}"
