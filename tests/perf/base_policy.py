"""What a base policy can do, for its card: `python tests/perf/base_policy.py [MODEL [PRESET]]`; some minutes.

With the preset `tiny`, boards that it was not taught: fresh draws without those of the benchmark suite, and
the validation set. With another preset its validation set, which the policy was not taught either. Design
questions: made-up contexts of the preset's config space, answered under the schema as in a curriculum,
against the rule's answers."""

import sys

import numpy as np
from engineer.claims import check_claims

from engineer.answer import SHARE_ROUNDING, answer_schema, parse_answer, project
from engineer.context import VARIANTS, Module
from engineer.lessons import random_context, with_labels
from engineer.prompt import design_prompt
from engineer.teacher import teach
from envgen.breakdown import wilson
from envgen.dataset import USUAL
from envgen.family import Source
from envgen.mapf.prompts import PromptStyle
from envgen.sampling import sample
from envgen.seeds import generator
from infra.config.preset import TINY_DESIGN_TOKENS, Preset, load_preset
from infra.config.recipe import load_recipe
from infra.runs.data import validation_instances
from policy.chat.contract import Sampling, ask
from policy.chat.transformers_model import TransformersModel
from policy.evaluation import evaluate
from policy.rollouts import breakdown_of
from policy.tiny.rates import rates_of

FRESH = {2: (3, 4, 5, 6, 8, 10), 3: (4, 5, 6, 8), 4: (5, 6), 5: (6,)}
"""Agents -> map sizes."""
EACH = 100
QUESTIONS = 200


def main(source: str, name: str = "tiny") -> None:
    model = TransformersModel(source, batch_size=128, dtype="float32")
    preset = load_preset(name)
    if name == "tiny":
        boards(model)
    else:
        solved(model, preset)
    for variant in ("V1", "V6", *(["V6W"] if preset.space.asked else [])):
        print(designs(model, preset, variant), flush=True)


def solved(model: TransformersModel, preset: Preset) -> None:
    """The validation set by stratum."""
    sampling = Sampling(max_tokens=preset.max_answer_tokens)
    rollouts = evaluate(model, preset.task, validation_instances(preset), preset.prompt_style, sampling)
    counts = breakdown_of(preset.task, rollouts)
    for stratum, part in counts.strata.items():
        print(
            f"{preset.space.label(stratum)}: {part.valid} of {part.n}, {wilson(part.valid, part.n)}",
            flush=True,
        )
    print(f"all: {wilson(counts.overall.valid, counts.overall.n)}", flush=True)


def boards(model: TransformersModel) -> None:
    """Boards of any size and number of agents, and the validation set of `tiny`."""
    recipe = load_recipe(None, {})
    for lesson in recipe.lessons:
        agents = lesson.family.options["agents"]
        evaluated = lesson.evaluated.model_copy(
            update={"strata": {str(size): {"wait_ratio": 0.0} if size == 3 else {} for size in FRESH[agents]}}
        )
        fresh = []
        for name, given in evaluated.strata.items():
            alone = evaluated.model_copy(update={"strata": {name: given}})
            for values, config in alone.parts(lesson.task.space):
                drawn = Source(991, purpose="-".join(["card", *map(str, values)]))
                fresh += sample(lesson.task, config, EACH, drawn)[0]
        sampling = Sampling(max_tokens=recipe.longest_answer)
        rollouts = evaluate(model, lesson.task, fresh, lesson.style, sampling)
        print(rates_of(lesson.name, lesson.task.space, rollouts).line(), flush=True)
    preset = load_preset("tiny")
    rollouts = evaluate(
        model,
        USUAL.load(),
        validation_instances(preset),
        PromptStyle.COMPACT,
        Sampling(max_tokens=preset.max_answer_tokens),
    )
    for name, kept in (
        ("all", rollouts),
        *(
            (str(wait), [r for r in rollouts if ("wait_required" in r.instance.labels) is wait])
            for wait in (False, True)
        ),
    ):
        valid, optimal = (
            wilson(sum(getattr(r.verdict, rate) for r in kept), len(kept)) for rate in ("valid", "optimal")
        )
        print(
            f"validation set of tiny, wait needed: {name}: {len(kept)} boards, valid {valid}, optimal"
            f" {optimal}",
            flush=True,
        )


def designs(model: TransformersModel, preset: Preset, variant: str) -> str:
    """How many answers are the rule's, how many claims of the reasons are true, and how many answers are both
    throughout."""
    rng = generator(7, "unseen designs", variant)
    contexts = [random_context(rng, preset.space) for _ in range(QUESTIONS)]
    if Module.WAITS in VARIANTS[variant]:
        contexts = [with_labels(context, rng) for context in contexts]
    sampling = Sampling(max_tokens=TINY_DESIGN_TOKENS, json_schema=answer_schema(preset.space))
    same = reasons = checked = true = whole = readable = 0
    for context, completion in zip(
        contexts,
        model.complete([ask(design_prompt(variant, c, "compact").text) for c in contexts], sampling),
        strict=True,
    ):
        rule, said = teach(context)
        try:
            rationale, raw = parse_answer(completion.text, context.space)
            config, _ = project(raw, context.space, context.current.config)
        except ValueError:
            continue
        readable += 1
        knobs = [(config.strata[name], rule.strata[name]) for name in context.space.names]
        alike = all(
            abs(a.data_ratio - b.data_ratio) <= 2 * SHARE_ROUNDING
            and np.allclose(list(a.knobs.values()), list(b.knobs.values()))
            for a, b in knobs
        )
        same, reasons = same + alike, reasons + (rationale == said)
        claims = check_claims(
            context.space, rationale, context.current.config, config, context.current.breakdown
        )
        checked, true = checked + claims.checked, true + claims.true
        whole += alike and not claims.false
    return (
        f"{variant}: {readable} of {QUESTIONS} readable, config equal to the rule's"
        f" {wilson(same, QUESTIONS)}, reason word for word {wilson(reasons, QUESTIONS)}, claims true {true}"
        f" of {checked}, the rule's config and no claim false {wilson(whole, QUESTIONS)}"
    )


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["tiny"]))
