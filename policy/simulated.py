"""The simulated learner as a policy: it answers prompts, and GRPO trains it on the rewards of its answers.

`model: simulated` runs the whole loop in a minute, without torch: to try engineers, presets, an installation.
It says nothing about training a language model. An answer is the reference, the reference of another
instance, or unreadable; the environment judges it, and `policy.learner` moves by the advantages of groups.
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
from pydantic import ValidationError
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
from policy.learner import READABLE, Learner

UNREADABLE = "?"
_LEARNING_RATE = 1e-4
"""`trl.learning_rate` at which a step moves skills by `Learner.rate`."""


class SimulatedPolicy(Frozen):
    """A learner and its skills."""

    learner: Learner = Learner()
    skills: dict[str, tuple[float, ...]]
    """Stratum -> skills, see `policy.learner`; labels in the order of the knobs that ask for them."""

    @property
    def array(self) -> np.ndarray:
        """Skills of shape (S, 2 + L)."""
        return np.array(list(self.skills.values()))


def new_policy(space: Space) -> SimulatedPolicy:
    """Return a policy that was not trained: from the first stratum to the last, right answers get rarer."""
    heights = np.linspace(1.0, -2.5, len(space.strata)).tolist()
    skills = ((height, *[-0.7] * len(space.asked), 3.0) for height in heights)
    return SimulatedPolicy(skills=dict(zip(space.names, skills, strict=True)))


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
    had, has = ([(name, len(skills)) for name, skills in each.skills.items()] for each in (policy, new))
    if had != has:
        raise ModelError(f"{path}: is of an environment with other strata; start from model {SIMULATED!r}")
    return policy


class SimulatedModel:
    """A `ChatModel` that answers the prompts of these instances, equal ones alike at temperature 0."""

    def __init__(
        self, policy: SimulatedPolicy, environment: Environment, instances: Sequence[Any], style: str
    ) -> None:
        references = [environment.reference(instance) for instance in instances]
        prompts = [environment.prompt(instance, style) for instance in instances]
        if "" in references:
            question = excerpt(prompts[references.index("")])
            raise ModelError(f"model {SIMULATED!r} answers by references, and {question} has none")
        kinds, places = _kinds(environment.space, instances)
        right, readable = policy.learner.right(policy.array, kinds), expit(policy.array[:, READABLE])
        ids = [instance.id for instance in instances]
        chances = [(right[place], readable[place[0]]) for place in places]
        self._asked = dict(zip(prompts, zip(ids, chances, references, strict=True), strict=True))
        self._references = [reference for _, _, reference in self._asked.values()]
        self._digest = sha256(policy.model_dump_json().encode()).digest()

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        """Answer every conversation in order; ModelError for one that is no prompt of an instance."""
        completions, asked = list[Completion](), Counter()
        for conversation in conversations:
            prompt = conversation[-1].content
            if prompt not in self._asked:
                raise ModelError(f"model {SIMULATED!r} answers instances and nothing else")
            name, chances, best = self._asked[prompt]
            rank = [asked[name]] if asked[name] and sampling.temperature else []
            asked[name] += 1
            rng = np.random.default_rng([*self._digest, *sha256(name.encode()).digest(), *rank])
            [text] = _answers(*chances, best, self._references, 1, rng)
            read, written = _tokens(prompt), _tokens(text)
            completions.append(
                Completion(text=text, finish_reason="stop", prompt_tokens=read, completion_tokens=written)
            )
        if progress:
            progress(dict(enumerate(completions)))
        return completions


def train(spec: TrainSpec, progress: Callable[[dict[str, Any]], None]) -> None:
    """GRPO on the skills of a policy; leaves checkpoint and training log of a stage, as real training does.
    TRL's group size, answers of a step, number of steps and learning rate count."""
    environment, started = spec.environment.load(), time.monotonic()
    policy, instances = read_policy(spec.parent, environment.space), read_dataset(spec.data)
    rng, group = np.random.default_rng(spec.seed), group_size(spec.trl)
    prompts = max(1, deciding_options(spec.trl, spec.training, 1)["answers_a_step"] // group)
    rate = policy.learner.rate * float(spec.trl.get("learning_rate") or 1e-6) / _LEARNING_RATE
    learner, skills = policy.learner.model_copy(update={"rate": rate}), policy.array
    rest, (kinds, places) = new_policy(environment.space).array, _kinds(environment.space, instances)
    epochs, most = float(spec.trl.get("num_train_epochs", 1)), int(spec.trl.get("max_steps") or 0)
    batches = _batches(len(instances), most * prompts / len(instances) if most > 0 else epochs, prompts, rng)
    rows, tokens, faults = list[dict[str, Any]](), 0, FaultCount(environment.space)
    for step, batch in enumerate(batches, start=1):
        begun = time.monotonic()
        chances = learner.right(skills, kinds), expit(skills[:, READABLE])
        drawn = [(instances[i], places[i]) for i in batch]
        signal, row = _step(environment, spec, drawn, chances, rng, faults)
        unseen = np.bincount([places[i][0] for i in batch], minlength=len(skills)) == 0
        skills = learner.moved(skills, kinds, signal, unseen, rest)
        tokens += row["completion_tokens"]
        rows.append({"step": step, **row, "seconds": time.monotonic() - begun})
        done = {"step": step, "steps": len(batches), "steps_here": step, "tokens_here": tokens}
        rates = {"rewards/valid/mean": row["valid"], "rewards/optimal/mean": row["optimal"]}
        signal = {"reward": row["reward"], "frac_reward_zero_std": row["zero_variance"]}
        progress({**done, **rates, **signal, "strata": row["strata"], "elapsed": time.monotonic() - started})
        if spec.training.is_spent(tokens, time.monotonic() - started):
            break
    faults.add([], last=True)
    skills = np.round(skills + rng.normal(0.0, learner.noise, skills.shape), 9).tolist()
    write_table(spec.output / TRAIN_LOG, pa.Table.from_pylist(rows, schema=TRAIN_LOG_SCHEMA))
    partial = spec.work / CHECKPOINT
    shutil.rmtree(partial, ignore_errors=True)
    strata = dict(zip(environment.space.names, map(tuple, skills), strict=True))
    write_json(partial / SIMULATED_STATE, policy.model_copy(update={"skills": strata}))
    move_directory(partial, spec.output / CHECKPOINT)


def _kinds(space: Space, instances: Sequence[Any]) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Return the kinds of instances, (K, L), and for each instance the places of its stratum and its kind."""
    labels = [knob.label.name for knob in space.asked if knob.label]
    having = [tuple(label in instance.labels for label in labels) for instance in instances]
    kinds = sorted(set(having))
    pairs = zip(instances, having, strict=True)
    places = [(space.names.index(instance.stratum), kinds.index(has)) for instance, has in pairs]
    return np.array(kinds, float).reshape(len(kinds), len(labels)), places


def _batches(count: int, epochs: float, prompts: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Indices of the instances of each step: whole passes in random order, then a part of one."""
    order = np.concatenate([rng.permutation(count) for _ in range(int(np.ceil(epochs)))])
    order = order[: round(epochs * count)]
    starts = range(0, max(1, len(order) - prompts + 1), prompts)
    return [order[start : start + prompts] for start in starts]


def _step(
    environment: Environment,
    spec: TrainSpec,
    batch: list[tuple[Any, tuple[int, int]]],
    chances: tuple[np.ndarray, np.ndarray],
    rng: np.random.Generator,
    faults: FaultCount,
) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the signal, see `Learner.moved`, of a step on instances at their places, and the row of the
    training log."""
    group, (right, readable) = group_size(spec.trl), chances
    members = [instance for instance, _ in batch for _ in range(group)]
    references = [environment.reference(instance) for instance, _ in batch]
    texts = [
        text
        for (_, place), best in zip(batch, references, strict=True)
        for text in _answers(right[place], readable[place[0]], best, references, group, rng)
    ]
    verdicts = environment.judge(members, texts)
    faults.add(verdicts)
    earned = [terms(environment, verdict) for verdict in verdicts]
    weights = spec.rewards.weights
    rewards = np.array([sum(weights[name] * values[name] for name in weights) for values in earned])
    groups = np.ma.masked_invalid(rewards.reshape(len(batch), group))
    centred = groups - groups.mean(axis=1, keepdims=True)
    advantages = (centred / (groups.std(axis=1, keepdims=True) + 1e-4)).filled(0.0)
    valid = np.reshape([verdict.valid for verdict in verdicts], advantages.shape)
    signal, places = np.zeros_like(right), np.array([place for _, place in batch])
    np.add.at(signal, tuple(places.T), (advantages * valid).sum(axis=1) / rewards.size)
    tokens = list(map(_tokens, texts))
    entries = stratum_metrics(
        Answers(
            stratum=[instance.stratum for instance in members],
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
    return signal, row


def _answers(
    right: float, readable: float, best: str, references: Sequence[str], count: int, rng: np.random.Generator
) -> list[str]:
    """Return answers that are right and readable with these probabilities; `best` is the right one."""
    is_right, is_readable = rng.random(count) < right, rng.random(count) < readable
    first = rng.integers(len(references), size=count).tolist()
    # References of other instances, the next one where they are the same.
    wrong = [
        next((text for text in (*references[place:], *references[:place]) if text != best), UNREADABLE)
        for place in first
    ]
    return [
        (best if solved else other) if read else UNREADABLE
        for solved, read, other in zip(is_right, is_readable, wrong, strict=True)
    ]


def _tokens(text: str) -> int:
    """A token for every four characters."""
    return len(text) // 4 + 1
