"""TRL's trainer with what envwright adds: metrics by stratum, refill, and a fast path on CPUs."""

from functools import partial
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate.utils import gather_object
from datasets import Dataset
from torch.utils.data import Sampler
from transformers import PreTrainedModel
from trl import GRPOTrainer

from policy.cpu import can_share, generate_shared, log_probabilities, pack
from policy.grpo.saving import SaveByTime
from policy.grpo.train_log import Answers, has_signal, overall, some_failed, stratum_metrics
from policy.grpo.train_spec import TrainingSettings, trainer_state


class Answered(NamedTuple):
    """Answers of all processes, those to one prompt in a row."""

    rows: list[tuple[dict[str, Any], list[int], list[int], Any, list[float] | None]]
    """Row of the data, ids of prompt and completion, completion as a conversation, log-probabilities of
    vLLM."""
    rewards: torch.Tensor
    """[answers, terms]; NaN where an answer could not be scored."""


class Trainer(GRPOTrainer):
    """TRL's trainer, which also logs by stratum: answers, tokens, advantages, valid ones, groups without
    signal.

    With `refill` above 1 groups without signal are replaced before the loss by groups that have some, of
    further prompts of the same data (dynamic sampling, 2503.14476): at most `refill` times the prompts of a
    generation are answered, and as many are trained on as without.

    On a CPU it computes each prompt once for all of its answers, and no gradient for answers whose loss has
    none. Where it is to go on from a checkpoint, `resume`, it draws the data in the order of an uninterrupted
    training.
    """

    def __init__(
        self,
        *args: Any,
        resume: Path | None,
        settings: TrainingSettings,
        failed: list[dict[str, str]],
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._failed = failed
        arguments: Any = self.args
        span = arguments.steps_per_generation * self.num_iterations
        self.add_callback(SaveByTime(settings.save_minutes, lambda: self._step % span == 0))
        self._epochs_done = int(trainer_state(resume)["epoch"]) if resume else 0
        self._refill, self._chosen = settings.refill, None
        self._offered = Answers([], [], [], [], [])
        # Processes that pass through the model a different number of times would wait for each other.
        alone = self.accelerator.device.type == "cpu" and self.accelerator.num_processes == 1
        plain = not (self.aux_loss_enabled or arguments.cache_implementation)
        model = self.model if isinstance(self.model, PreTrainedModel) else None
        self._shares = alone and plain and model is not None and can_share(model)
        if self._shares:
            setattr(self.model, "generate", partial(generate_shared, self.model))  # noqa: B010
        self._advantages: torch.Tensor | None = None

    def _get_train_sampler(self, dataset: Dataset | None = None) -> Sampler:
        sampler = super()._get_train_sampler(dataset)
        # Each pass over the data draws an order from a generator that no checkpoint of the trainer keeps.
        for _ in range(self._epochs_done):
            next(iter(sampler), None)
        return sampler

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        if self._refill <= 1:
            return super()._generate_and_score_completions(inputs)
        begin = len(self._offered.used)
        answered = self._answered(inputs)
        group, wanted = self._group, len(answered.rows) // self._group
        missing = self._missing(answered, wanted)
        while missing:
            more = self._answered(missing)
            answered = Answered(answered.rows + more.rows, torch.cat([answered.rewards, more.rewards]))
            missing = self._missing(answered, wanted)
        # The first with signal; where these are too few, the first without.
        order = np.argsort(~has_signal(self._totals(answered.rewards), group), kind="stable")
        chosen = np.sort(order[:wanted])
        places = (chosen[:, None] * group + np.arange(group)).ravel()
        self._offered.used[begin:] = np.isin(np.arange(len(answered.rows)), places).tolist()
        first = self.accelerator.process_index * len(inputs)
        mine = [answered.rows[place] for place in places[first : first + len(inputs)]]
        self._chosen = Answered(mine, answered.rewards[places])
        try:
            return super()._generate_and_score_completions([row[0] for row in mine])
        finally:
            self._chosen = None

    @property
    def _group(self) -> int:
        return int(self.num_generations or 1)

    def _totals(self, rewards: torch.Tensor) -> list[float]:
        """The weighted reward of each answer; NaN where it could not be scored."""
        total = (rewards * self.reward_weights.to(rewards.device)).nansum(dim=1)
        return total.masked_fill(rewards.isnan().all(dim=1), torch.nan).tolist()

    def _missing(self, answered: Answered, wanted: int) -> list[dict[str, Any]]:
        """Inputs of this process for the groups that are still missing; none where no more may be asked.

        As many groups as fill the gap if they have signal as often as those before.
        """
        signal = has_signal(self._totals(answered.rewards), self._group)
        processes, asked, got = self.accelerator.num_processes, len(signal), int(signal.sum())
        rows: Any = self.train_dataset
        room = min(int(self._refill * wanted), len(rows)) - asked
        likely = ceil((wanted - got) * asked / max(got, 1))
        count = min(room // processes, ceil(likely / processes), max(wanted // processes, 1))
        if got >= wanted or count < 1:
            return []
        # The same in each process and after a resume: it depends on the seed and the step alone.
        pass_ = self._step % self.args.gradient_accumulation_steps
        order = np.random.default_rng([self.args.seed, self.state.global_step, pass_]).permutation(len(rows))
        seen = {row[0]["index"] for row in answered.rows}
        new = [int(place) for place in order if int(place) not in seen]
        first = self.accelerator.process_index * count
        return [dict(rows[place]) for place in new[first : first + count] for _ in range(self._group)]

    def _answered(self, inputs: list[dict[str, Any]]) -> Answered:
        """Answer and score the inputs of all processes."""
        prompts = [row["prompt"] for row in inputs]
        prompt_ids, ids, _, completions, logprobs, *_ = super()._generate(prompts)
        rewards = self._calculate_rewards(inputs, prompts, completions, ids)
        logprobs = logprobs or [None] * len(inputs)
        rows = zip(inputs, prompt_ids, ids, completions, logprobs, strict=True)
        return Answered(gather_object(list(rows)), rewards)

    def _generate(self, prompts: list[Any]) -> Any:
        if self._chosen is None:
            return super()._generate(prompts)
        _, prompt_ids, ids, completions, logprobs = map(list, zip(*self._chosen.rows, strict=True))
        return prompt_ids, ids, None, completions, None if None in logprobs else logprobs, {}, None, []

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, ids: Any) -> torch.Tensor:
        if self._chosen is not None:
            return self._chosen.rewards
        rewards = super()._calculate_rewards(inputs, prompts, completions, ids)
        answers = [(row["stratum"], len(tokens)) for row, tokens in zip(inputs, ids, strict=True)]
        strata, tokens = zip(*gather_object(answers), strict=True)
        self._offered.stratum.extend(strata)
        self._offered.tokens.extend(tokens)
        self._offered.reward.extend(self._totals(rewards))
        self._offered.valid.extend(rewards[:, self.reward_func_names.index("valid")].tolist())
        self._offered.used.extend([True] * len(strata))
        return rewards

    def log(self, logs: dict[str, Any], start_time: float | None = None) -> None:
        """Log also what was generated since the last entry: tokens, and by stratum."""
        if self._offered.used:
            entries = stratum_metrics(self._offered, self._group)
            means = ("rewards/valid/mean", "valid"), ("frac_reward_zero_std", "zero_variance")
            # TRL's are of what is trained on; and it takes the rounding of a mean for a difference.
            self._metrics["train"].update({name: [overall(entries, column)] for name, column in means})
            tokens, failed = sum(self._offered.tokens), some_failed(gather_object(self._failed))
            logs = {**logs, "strata": entries, "completion_tokens": tokens, "failed": failed}
            self._failed.clear()
            self._offered = Answers([], [], [], [], [])
        super().log(logs, start_time)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        # With these two the loss of an answer has more terms than its advantage.
        self._advantages = None if self.beta or self._entropy_bonus_enabled else inputs["advantages"]
        try:
            return super()._compute_loss(model, inputs)
        finally:
            self._advantages = None

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, *args: Any, **options: Any
    ) -> Any:
        if not self._shares:
            return super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, *args, **options
            )
        answer_length = args[0] if args else options["logits_to_keep"]
        learns = torch.ones(len(input_ids), dtype=torch.bool)
        if self._advantages is not None:
            learns = self._advantages != 0
        parts = [rows for rows in (learns.nonzero()[:, 0], (~learns).nonzero()[:, 0]) if len(rows)]
        results = []
        # The first part has a gradient even where no answer learns: a loss without one cannot be passed back.
        for number, rows in enumerate(parts):
            packed = pack(input_ids[rows], attention_mask[rows], answer_length)
            with torch.set_grad_enabled(torch.is_grad_enabled() and number == 0), self.accelerator.autocast():
                results.append(log_probabilities(model, packed))
        order = torch.argsort(torch.cat(parts))
        log_probs, entropies = (
            torch.cat(values)[order] if values[0] is not None else None
            for values in zip(*results, strict=True)
        )
        return log_probs, entropies, None
