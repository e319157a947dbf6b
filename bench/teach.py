"""Teach a shipped policy instances of its preset and design questions, from the weights that it has.

    python bench/teach.py tiny OUTPUT [--start FOLDER] [--steps 2000] [--bench 0]

Supervised learning on references that are never repeated, and on answers of `design_rule`; every
`--designs`-th batch is of design questions. The tokenizer gets a token for each piece of text that is
frequent in these and that it does not have. Muon steps the weight matrices, AdamW the rest; the rates are
constant for half of the steps, then fall linearly.
Validation, tuning and test set of the preset and the benchmark are left out.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from design_lessons import drawn, lessons
from tokenizers import Tokenizer
from torch.utils.data import DataLoader, IterableDataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from engineer.answer import AnswerError, answer_schema, parse_answer, project
from envgen.config import EnvConfig
from envgen.environment import Source
from envgen.errors import ShortageError
from envgen.estimates import wilson
from envgen.registry import EnvironmentSpec
from envgen.seeds import generator
from infra.config.preset import Preset, load_preset
from policy.chat.contract import Sampling, ask
from policy.chat.transformers_model import TransformersModel
from policy.checkpoints import resolve_model
from policy.evaluation import evaluate
from policy.rollouts import breakdown_of
from tasks.warm_start import held_out

BATCH, DESIGNS = 96, 32
"""Instances and design questions of a batch."""
CHUNK = 32
"""Batches that are drawn together."""
ALIKE = 8
"""Batches of design questions that are drawn together and sorted by length."""
READ, FREQUENT = 4096, 20
"""Design questions whose pieces are counted, and how often a piece is in them to become a token."""
MUON, ADAMW = 0.02, 4e-3
"""Peak learning rates of a policy made from nothing; `--learning-rate` scales both."""
BOARDS = {
    # agents: (weight, hole ratios, map size -> share)
    2: (0.55, (0.1, 0.2, 0.3, 0.4, 0.5), (10, 15, 18, 18, 13, 14, 6, 6)),
    3: (0.27, (0.1, 0.2, 0.3, 0.4, 0.5), (10, 17, 22, 18, 13, 10, 5, 5)),
    4: (0.11, (0.1, 0.2, 0.3, 0.4), (0, 20, 25, 20, 15, 10, 5, 5)),
    5: (0.07, (0.1, 0.2, 0.3), (0, 0, 25, 25, 20, 15, 7.5, 7.5)),
}
WAITS = 0.03
PUZZLES = {
    # name: (generator, settings, share)
    "words_4": ("spell_backward", {"letters": 4}, 3),
    "words_5": ("spell_backward", {"letters": 5}, 7),
    "words_6": ("spell_backward", {"letters": 6}, 2),
    "turns_2": ("rotate_matrix", {"side": 2, "rotations": 4}, 6),
    "turns_3": ("rotate_matrix", {"side": 3, "rotations": 4}, 11),
    "sudoku_2": ("mini_sudoku", {"empty": 2}, 3),
    "sudoku_4": ("mini_sudoku", {"empty": 4}, 9),
    "sudoku_6": ("mini_sudoku", {"empty": 6}, 2),
    "sums_1": ("chain_sum", {"terms": 2, "digits": 1}, 5),
    "sums_2": ("chain_sum", {"terms": 2, "digits": 2}, 13),
    "paths_4": ("shortest_path", {"side": 4, "blocked": 0.25, "infeasible_ratio": [0, 1]}, 15),
    "paths_5": ("shortest_path", {"side": 5, "blocked": 0.25, "infeasible_ratio": [0, 1]}, 1),
    "programs_6": ("ab", {"tokens": 6}, 10),
    "programs_8": ("ab", {"tokens": 8}, 3),
    "lists_3": ("number_sorting", {"numbers": 3}, 5),
    "products_1": ("products", {"terms": 2, "digits": 1}, 2),
    "products_2": ("products", {"terms": 2, "digits": 2}, 2),
}
INFEASIBLE = 0.05


def mixture(name: str) -> list[tuple[EnvironmentSpec, float, EnvConfig]]:
    """Return the environments that a policy is taught, each with its weight and config."""
    if name == "tiny-puzzles":
        strata = [{"name": key, "generator": kind, "settings": s} for key, (kind, s, _) in PUZZLES.items()]
        spec = EnvironmentSpec(name="reasoning-gym", options={"strata": strata})
        shares = {key: share for key, (_, _, share) in PUZZLES.items()}
        knobs = {key: {"infeasible_ratio": INFEASIBLE} if "paths" in key else {} for key in PUZZLES}
        return [(spec, 1.0, _config("strata", shares, knobs))]
    parts = []
    for agents, (weight, holes, each) in BOARDS.items():
        spec = EnvironmentSpec(name="mapf-frozenlake", options={"agents": agents})
        shares = {str(size): share for size, share in enumerate(each, 3)}
        for ratio in holes:
            # Too few boards of 3x3 need a wait.
            knobs = {size: {"hole_ratio": ratio, "wait_ratio": WAITS * (size != "3")} for size in shares}
            parts.append((spec, weight / len(holes), _config("sizes", shares, knobs)))
    return parts


def _config(key: str, shares: dict[str, float], knobs: dict[str, dict[str, float]]) -> EnvConfig:
    total = sum(shares.values())
    strata = {name: {"data_ratio": share / total, **knobs[name]} for name, share in shares.items()}
    return EnvConfig.model_validate({key: strata})


class Batches(IterableDataset):
    """Batches of questions with their answers, drawn in the process that iterates."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.name, self.steps, self.every = options.preset, options.steps, options.designs
        self.seed, self.bench = options.seed, options.bench

    def __iter__(self) -> Iterator[list[tuple[str, str]]]:
        torch.set_num_threads(1)
        preset = load_preset(self.name)
        unseen, designs, chunk = (
            held_out(preset),
            lessons(self.seed, preset, self.bench),
            list[list[tuple[str, str]]](),
        )
        asked = list[list[tuple[str, str]]]()
        for number in range(self.steps):
            if number % self.every == self.every - 1:
                asked = asked or _alike(list(islice(designs, DESIGNS * ALIKE)), number)
                yield asked.pop()
                continue
            chunk = chunk or self._chunk(number, preset.prompt_style, unseen)
            yield chunk.pop()

    def _chunk(self, number: int, style: str, unseen: frozenset[str]) -> list[list[tuple[str, str]]]:
        pairs = []
        for place, (spec, weight, config) in enumerate(mixture(self.name)):
            task = spec.load()
            for name, wanted in config.counts(round(weight * BATCH * CHUNK)).items():
                source = Source(self.seed, number, f"teach-{place}")
                try:
                    drawn = task.generate(name, config.strata[name].knobs, wanted, source, unseen).instances
                except ShortageError as error:
                    drawn = error.instances
                pairs += [(task.prompt(each, style), task.reference(each)) for each in drawn]
        order = generator(number, "teach").permutation(len(pairs))
        return [[pairs[at] for at in order[first : first + BATCH]] for first in range(0, len(pairs), BATCH)]


def _alike(pairs: list[tuple[str, str]], seed: int) -> list[list[tuple[str, str]]]:
    """Return batches of questions of similar length, in random order."""
    pairs.sort(key=lambda pair: len(pair[0]))
    order = generator(seed, "alike").permutation(ALIKE)
    return [pairs[at * DESIGNS : (at + 1) * DESIGNS] for at in order]


def extended(tokenizer: Any, texts: list[str]) -> PreTrainedTokenizerFast:
    """Return the tokenizer with further tokens, for pieces of the texts that it spells in bytes."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    split, vocabulary = tokenizer.backend_tokenizer.pre_tokenizer, state["model"]["vocab"]
    counts = Counter(piece for text in texts for piece, _ in split.pre_tokenize_str(text))
    new = sorted(piece for piece, n in counts.items() if n >= FREQUENT and piece not in vocabulary)
    for piece in new:
        vocabulary[piece] = len(vocabulary)
    print(f"{len(new)} new tokens, {len(vocabulary)} in all", flush=True)
    kwargs = {"pad_token": tokenizer.pad_token, "eos_token": tokenizer.eos_token, "padding_side": "left"}
    made = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)),
        model_max_length=tokenizer.model_max_length,
        **kwargs,
    )
    made.chat_template = tokenizer.chat_template
    return made


def encoded(batch: list[tuple[str, str]], tokenizer: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and labels of a batch, [questions, longest], padded on the right."""
    rows = []
    for question, answer in batch:
        turn = [{"role": "user", "content": question}]
        text = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
        asked = tokenizer(text, add_special_tokens=False)["input_ids"]
        said = [*tokenizer(answer, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        rows.append((asked + said, [-100] * len(asked) + said))
    longest = max(len(ids) for ids, _ in rows)
    assert longest <= tokenizer.model_max_length, f"a question and its answer have {longest} tokens"
    pad = tokenizer.pad_token_id
    ids = torch.tensor([ids + [pad] * (longest - len(ids)) for ids, _ in rows])
    return ids, torch.tensor([labels + [-100] * (longest - len(labels)) for _, labels in rows])


def report(folder: str, preset: Preset, questions: int) -> None:
    """Print greedy rates: valid instances of the validation set, and unseen design questions that are
    answered as the rule does."""
    model, sampling = TransformersModel(folder, batch_size=32), Sampling(max_tokens=preset.max_answer_tokens)
    instances = preset.validation.draw(preset.task)
    counts = breakdown_of(preset.task, evaluate(model, preset.task, instances, preset.prompt_style, sampling))
    for name, part in (*counts.strata.items(), ("all", counts.overall)):
        split = [each.valid_rate for label in part.labels for each in part.split(label) or ()]
        print(name, part.n, "valid", part.valid_rate, "optimal", part.optimal_rate, *split, flush=True)
    for context in ("V1", "V6", "V6W"):
        same = read = reasons = 0
        for made_up, question, answer in islice(drawn(10**6 + 1, preset, (context,)), questions):
            schema = answer_schema(made_up.space)
            how = Sampling(max_tokens=preset.engineer.max_tokens, json_schema=schema)
            [completion] = model.complete([ask(question)], how)
            (wanted, edits), current = parse_answer(answer, made_up.space), made_up.current.config
            try:
                reason, raw = parse_answer(completion.text, made_up.space)
                config, _ = project(raw, made_up.space, current)
            except AnswerError:
                continue
            read, reasons = read + 1, reasons + (reason == wanted)
            same += config == project(edits, made_up.space, current)[0]
        rates = [wilson(count, questions) for count in (same, reasons)]
        print(f"{context}: {read} of {questions} readable, config and reason the rule's {rates}", flush=True)


def main() -> None:
    """Teach, and write the policy; or report on one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("preset", choices=("tiny", "tiny-puzzles"))
    parser.add_argument("output", type=Path)
    parser.add_argument("--start", help="weights to go on from, instead of the shipped ones")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--designs", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, default=0.5)
    parser.add_argument("--bench", type=float, default=0.0, help="share of questions of EngineerBench")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=int, default=0, help="design questions; teach nothing")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    if options.report:
        return report(str(options.output), load_preset(options.preset), options.report)
    folder, preset = options.start or resolve_model(options.preset), load_preset(options.preset)
    model, old = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    texts = [text for pair in islice(lessons(10**6, preset, options.bench), READ) for text in pair]
    tokenizer = extended(old, texts)
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    rest = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    scale = options.learning_rate
    optimizers = [
        torch.optim.Muon(matrices, lr=MUON * scale, momentum=0.95, weight_decay=0.01),
        torch.optim.AdamW(rest, lr=ADAMW * scale, betas=(0.9, 0.98), weight_decay=0.01),
    ]

    def rate(step: int) -> float:
        return min(1, (step + 1) / 100, max(0.02, 2 * (1 - step / options.steps)))

    schedules = [torch.optim.lr_scheduler.LambdaLR(optimizer, rate) for optimizer in optimizers]
    batches = Batches(options)
    loader = DataLoader(batches, batch_size=None, num_workers=1, prefetch_factor=32)
    begin, losses = time.monotonic(), {True: 0.0, False: 0.0}
    for number, batch in enumerate(loader):
        ids, labels = encoded(batch, tokenizer)
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for each in (*optimizers, *schedules):
            each.step()
        model.zero_grad()
        design = len(batch) == DESIGNS
        losses[design] += 0.1 * (loss.item() - losses[design])
        if number % 50 == 49:
            minutes = (time.monotonic() - begin) / 60
            means = f"instances {losses[False]:.4f}, designs {losses[True]:.4f}"
            print(f"step {number + 1}: {means}, {minutes:.0f} min", flush=True)
        if number % 500 == 499 or number + 1 == options.steps:
            model.save_pretrained(options.output)
            tokenizer.save_pretrained(options.output)


if __name__ == "__main__":
    main()
