"""A simulated learner: a policy that is a few numbers, and GRPO on these numbers.

`model: simulated` runs the whole loop in a minute, without torch: to try engineers, presets, an installation.
It says nothing about training a language model. A skill is a logit: for each stratum that an answer is right
and that it can be read, for each label how much harder it makes an instance. An answer is the reference, the
reference of another instance, or unreadable; the environment judges it, and a step moves each skill by the
policy gradient with the advantages of groups.
"""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field, ValidationError
from scipy.special import expit

from envgen.dataset import read_dataset, write_table
from envgen.environment import Environment, FaultCount
from envgen.errors import ModelError, describe_validation_error, excerpt
from envgen.files import move_directory, write_json
from envgen.frozen import Frozen
from envgen.space import Space
from policy.chat.contract import Completion, Conversation, Progress, Sampling
from policy.checkpoints import SIMULATED, SIMULATED_STATE
from policy.grpo.rewards import terms
from policy.grpo.train_log import TRAIN_LOG_SCHEMA, Answers, overall, stratum_metrics
from policy.grpo.train_spec import CHECKPOINT, TRAIN_LOG, TrainSpec, deciding_options, group_size

UNREADABLE = "?"
_LEARNING_RATE = 1e-4
"""`trl.learning_rate` at which a step moves skills by `World.rate`."""


class World(Frozen):
    """How skills begin and how they move; all in logits."""

    easiest: float = 1.0
    """Right answers in the first stratum, of a new policy."""
    hardest: float = -2.5
    """The same in the last stratum; those between lie on a line."""
    labelled: float = -0.7
    """Added for each label of an instance."""
    readable: float = 3.0
    """Readable answers."""
    rate: float = Field(default=0.5, ge=0)
    """Length of a step along the gradient, at a learning rate of 1e-4."""
    transfer: float = Field(default=0.4, ge=0, le=1)
    """Part of a step that the neighbouring strata get too; those beyond get its powers."""
    forgetting: float = Field(default=0.01, ge=0, le=1)
    """Part by which a skill that a step did not train falls back towards its first value."""
    noise: float = Field(default=0.02, ge=0)
    """Standard deviation of a random change of each skill in each step."""


class SimulatedPolicy(Frozen):
    """Skills by name: a stratum, `STRATUM/LABEL`, or `STRATUM readable`."""

    world: World = World()
    skills: dict[str, float]


def new_policy(space: Space, world: World | None = None) -> SimulatedPolicy:
    """A policy that was not trained."""
    world, skills = world or World(), dict[str, float]()
    heights = np.linspace(world.easiest, world.hardest, len(space.strata))
    for stratum, height in zip(space.strata, heights.tolist(), strict=True):
        skills |= {stratum.name: height, f"{stratum.name} readable": world.readable}
        skills |= {
            f"{stratum.name}/{knob.label.name}": world.labelled for knob in stratum.knobs if knob.label
        }
    return SimulatedPolicy(world=world, skills=skills)


def read_policy(source: str, space: Space) -> SimulatedPolicy:
    """The policy of a checkpoint, or a new one; ModelError if it is damaged or of another environment."""
    new = new_policy(space)
    if source == SIMULATED:
        return new
    path = Path(source) / SIMULATED_STATE
    try:
        policy = SimulatedPolicy.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise ModelError(describe_validation_error(error, str(path))) from None
    if policy.skills.keys() != new.skills.keys():
        raise ModelError(f"{path}: is of an environment with other strata; start from model {SIMULATED!r}")
    return policy


class SimulatedModel:
    """A `ChatModel` that answers the prompts of these instances, always alike; above temperature 0 equal
    prompts get answers of their own."""

    def __init__(
        self, policy: SimulatedPolicy, environment: Environment, instances: Sequence[Any], style: str
    ) -> None:
        self._policy, self._environment = policy, environment
        self._instances = {environment.prompt(instance, style): instance for instance in instances}
        if missing := next((i for i in instances if not environment.reference(i)), None):
            question = excerpt(environment.prompt(missing, style))
            raise ModelError(f"model {SIMULATED!r} answers by references, and {question} has none")
        self._references = [environment.reference(instance) for instance in self._instances.values()]
        self._digest = sha256(policy.model_dump_json().encode()).digest()

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        """Answer every conversation in order; ModelError for one that is no prompt of an instance."""
        completions, asked = list[Completion](), Counter()
        for conversation in conversations:
            instance = self._instances.get(conversation[-1].content)
            if instance is None:
                raise ModelError(f"model {SIMULATED!r} answers instances and nothing else")
            rank = [asked[instance.id]] if asked[instance.id] and sampling.temperature else []
            asked[instance.id] += 1
            rng = np.random.default_rng([*self._digest, *sha256(instance.id.encode()).digest(), *rank])
            [text], _ = _answers(self._policy, self._environment, instance, self._references, 1, rng)
            prompt = _tokens(conversation[-1].content)
            completions.append(
                Completion(
                    text=text, finish_reason="stop", prompt_tokens=prompt, completion_tokens=_tokens(text)
                )
            )
        if progress:
            progress(dict(enumerate(completions)))
        return completions


def train(spec: TrainSpec, progress: Callable[[dict[str, Any]], None]) -> None:
    """GRPO on the skills of a policy; leaves checkpoint and training log of a stage, as real training does.

    Of TRL's options the group size, the answers of a step, their number and the learning rate count.
    """
    environment, started = spec.environment.load(), time.monotonic()
    policy, instances = read_policy(spec.parent, environment.space), read_dataset(spec.data)
    rng, group = np.random.default_rng(spec.seed), group_size(spec.trl)
    prompts = max(1, deciding_options(spec.trl, spec.training, 1)["answers_a_step"] // group)
    size = policy.world.rate * float(spec.trl.get("learning_rate") or 1e-6) / _LEARNING_RATE
    epochs, most = float(spec.trl.get("num_train_epochs", 1)), int(spec.trl.get("max_steps") or 0)
    batches = _batches(len(instances), most * prompts / len(instances) if most > 0 else epochs, prompts, rng)
    rows, tokens, faults = list[dict[str, Any]](), 0, FaultCount(environment.space)
    for step, batch in enumerate(batches, start=1):
        begun = time.monotonic()
        policy, row = _step(policy, environment, spec, [instances[i] for i in batch], size, rng, faults)
        tokens += row["completion_tokens"]
        rows.append({"step": step, **row, "seconds": time.monotonic() - begun})
        done = {"step": step, "steps": len(batches), "steps_here": step, "tokens_here": tokens}
        rates = {"rewards/valid/mean": row["valid"], "rewards/optimal/mean": row["optimal"]}
        signal = {"reward": row["reward"], "frac_reward_zero_std": row["zero_variance"]}
        progress({**done, **rates, **signal, "elapsed": time.monotonic() - started})
        if spec.training.is_spent(tokens, time.monotonic() - started):
            break
    faults.add([], last=True)
    write_table(spec.output / TRAIN_LOG, pa.Table.from_pylist(rows, schema=TRAIN_LOG_SCHEMA))
    partial = spec.work / CHECKPOINT
    shutil.rmtree(partial, ignore_errors=True)
    write_json(partial / SIMULATED_STATE, policy)
    move_directory(partial, spec.output / CHECKPOINT)


def _batches(count: int, epochs: float, prompts: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Indices of the instances of each step: whole passes in random order, then a part of one."""
    order = np.concatenate([rng.permutation(count) for _ in range(int(np.ceil(epochs)))])
    order = order[: round(epochs * count)]
    starts = range(0, max(1, len(order) - prompts + 1), prompts)
    return [order[start : start + prompts] for start in starts]


def _step(
    policy: SimulatedPolicy,
    environment: Environment,
    spec: TrainSpec,
    batch: list[Any],
    size: float,
    rng: np.random.Generator,
    faults: FaultCount,
) -> tuple[SimulatedPolicy, dict[str, Any]]:
    """The policy after one step on the instances of a batch, and the row of the training log."""
    group, gradient = group_size(spec.trl), dict[str, float]()
    references = [environment.reference(instance) for instance in batch]
    drawn = [_answers(policy, environment, instance, references, group, rng) for instance in batch]
    texts = [text for texts, _ in drawn for text in texts]
    verdicts = environment.judge([instance for instance in batch for _ in range(group)], texts)
    faults.add(verdicts)
    earned = [terms(environment, verdict) for verdict in verdicts]
    weights = spec.rewards.weights
    rewards = np.array([sum(weights[name] * values[name] for name in weights) for values in earned])
    groups = np.ma.masked_invalid(rewards.reshape(len(batch), group))
    centred = groups - groups.mean(axis=1, keepdims=True)
    advantages = (centred / (groups.std(axis=1, keepdims=True) + 1e-4)).filled(0.0)
    for (_, scores), values in zip(drawn, advantages, strict=True):
        for name, score in scores.items():
            gradient[name] = gradient.get(name, 0.0) + float(values @ score) / rewards.size
    tokens = list(map(_tokens, texts))
    entries = stratum_metrics(
        Answers(
            stratum=[instance.stratum for instance in batch for _ in range(group)],
            tokens=tokens,
            reward=rewards.tolist(),
            valid=[values["valid"] for values in earned],
            used=[True] * len(texts),
        ),
        group,
    )
    row = {
        "reward": groups.mean(),
        "valid": overall(entries, "valid"),
        "optimal": np.nanmean([values["optimal"] for values in earned]),
        "zero_variance": overall(entries, "zero_variance"),
        "clipped": 0.0,
        "loss": 0.0,
        "completion_tokens": sum(tokens),
        "strata": entries,
        "failed": [],
    }
    return _moved(policy, environment.space, gradient, size, rng), row


def _answers(
    policy: SimulatedPolicy,
    environment: Environment,
    instance: Any,
    references: Sequence[str],
    count: int,
    rng: np.random.Generator,
) -> tuple[list[str], dict[str, np.ndarray]]:
    """Answers to an instance, and for each skill behind them the derivative of their log-probabilities."""
    names = [instance.stratum, *(f"{instance.stratum}/{label}" for label in sorted(instance.labels))]
    names = [name for name in names if name in policy.skills]
    right = expit(sum(policy.skills[name] for name in names))
    readable = expit(policy.skills[f"{instance.stratum} readable"])
    is_right, is_readable = rng.random(count) < right, rng.random(count) < readable
    best, first = environment.reference(instance), rng.integers(len(references), size=count).tolist()
    # References of other instances, the next one where they are the same.
    wrong = [
        next((text for text in (*references[place:], *references[:place]) if text != best), UNREADABLE)
        for place in first
    ]
    texts = [
        (best if solved else other) if read else UNREADABLE
        for solved, read, other in zip(is_right, is_readable, wrong, strict=True)
    ]
    # What nobody can read says nothing of the rest of an answer.
    scores = dict.fromkeys(names, (is_right - right) * is_readable)
    return texts, {**scores, f"{instance.stratum} readable": is_readable - readable}


def _moved(
    policy: SimulatedPolicy, space: Space, gradient: dict[str, float], size: float, rng: np.random.Generator
) -> SimulatedPolicy:
    """The policy after a step along a gradient, with what neighbours get, forgetting and noise."""
    world, skills, names = policy.world, dict(policy.skills), space.names
    for name, first in new_policy(space, world).skills.items():
        step = gradient.get(name, 0.0)
        if name in names:
            place = names.index(name)
            distances = {other: abs(names.index(other) - place) for other in names if other != name}
            step += sum(gradient.get(other, 0.0) * world.transfer**far for other, far in distances.items())
        forgotten = 0.0 if name in gradient else world.forgetting * (skills[name] - first)
        skills[name] = round(skills[name] + size * step - forgotten + rng.normal(0.0, world.noise), 9)
    return policy.model_copy(update={"skills": skills})


def _tokens(text: str) -> int:
    """A token for every four characters."""
    return len(text) // 4 + 1
