"""Pilot the proposed configs with the policy that would train on them, and choose."""

from prefect import task

from envgen.config import EnvConfig
from envgen.errors import ChildError, ModelError, SamplingError
from envgen.family import Source
from envgen.sampling import sample
from envgen.seeds import seed_integer
from infra.analysis.stage_view import pilot_text
from infra.runs.data import held_out
from infra.runs.run import Run, RunRef
from infra.runs.stage import Stage
from infra.runs.steps import StepRecord, run_step
from policy.chat.answers import KeptAnswers
from policy.chat.contract import Sampling
from policy.grpo.pilot import Piloted, Pilots, pilot
from policy.grpo.train_spec import answer_tokens, group_size, reward_scale
from tasks.data import environment
from tasks.grounded import forget_grounded, ground, grounded_decides
from tasks.run import engine, log, reporting, task_options

PARTIAL = "pilot.partial.jsonl"
"""The answers of a pilot that was cut off."""


@task(**task_options("pilot"))
def score_candidates(run: RunRef, stage: int, candidates: StepRecord, gate: StepRecord) -> StepRecord:
    """Write the expected learning signal of each proposed config for the policy that would train on it."""
    preset, files = run.preset, run.stage(stage)
    policy = files.gate.in_force

    def body() -> None:
        configs = files.candidates.configs if preset.engineer.pilot else []
        pilots = tuple(_pilot(run, stage, policy, config) for config in configs)
        if preset.engineer.pilot_steps:
            pilots = tuple(_grounded(run, stage, policy, piloted) for piloted in pilots)
        for number, piloted in enumerate(pilots, start=1):
            log.info("stage %d: pilot of config %d: %s", stage, number, pilot_text(piloted))
        files.write(Stage.pilots, Pilots(pilots=pilots))

    decides = {
        "candidates": candidates.outputs[Stage.candidates.name],
        "gate": gate.key,
        "policy": run.identity(policy),
        "validation": run.digest(Run.validation),
        "pilot": preset.engineer.pilot,
        "trl": [group_size(preset.trl), answer_tokens(preset.trl), reward_scale(preset.trl)],
        "rewards": preset.rewards,
        **environment(preset),
        **preset.engine.decides,
        **grounded_decides(preset),
        "seed": preset.seed,
    }
    record = run_step(files.directory, "pilot", decides, (Stage.pilots.name,), body, kept=PARTIAL)
    forget_grounded(run, stage)
    return record


def _pilot(run: RunRef, stage: int, policy: int, config: EnvConfig) -> Piloted:
    preset, files, size = run.preset, run.stage(stage), group_size(run.preset.trl)
    source = Source(preset.seed, stage, "pilot")
    try:
        instances, _ = sample(preset.task, config, preset.engineer.pilot, source, held_out(run))
        model = engine(run.policy(policy), preset.engine, files.log("engine"))
        # As in training: temperature 1, the same answer length and group size.
        seed = seed_integer(preset.seed, stage, "pilot")
        sampling = Sampling(max_tokens=answer_tokens(preset.trl), temperature=1.0, seed=seed)
        progress = reporting(f"stage {stage}: pilot: %d of {preset.engineer.pilot * size} answers")
        how = (preset.prompt_style, sampling, preset.rewards, reward_scale(preset.trl), progress)
        asked = {"model": run.identity(policy), **preset.engine.decides}
        kept = KeptAnswers(model, files.directory / PARTIAL, asked)
        return Piloted(config=config, score=pilot(kept, preset.task, instances, size, *how))
    except (ModelError, SamplingError) as error:  # a score is not worth a run
        return Piloted(config=config, score=None, error=str(error))


def _grounded(run: RunRef, stage: int, policy: int, piloted: Piloted) -> Piloted:
    if piloted.score is None:
        return piloted
    try:
        found = ground(run, stage, policy, piloted.config)
    except (ChildError, ModelError, SamplingError) as error:  # as above
        return piloted.model_copy(update={"error": f"no grounded score: {error}"})
    tokens = piloted.score.completion_tokens + found.completion_tokens
    score = piloted.score.model_copy(update={"grounded": found, "completion_tokens": tokens})
    return piloted.model_copy(update={"score": score})


@task(**task_options("choose"))
def choose(run: RunRef, stage: int, candidates: StepRecord, pilots: StepRecord) -> StepRecord:
    """Write the proposal, and what its engineer remembers, from the candidate with the best pilot.

    The best has the largest score of the kind `engineer.pilot_score`; of equals the first drawn. The state
    follows from the context, which holds the state of the stage before: a step that was cut off between its
    two files is not done, and its repetition writes the same."""
    files = run.stage(stage)

    def body() -> None:
        found, pilots = files.candidates, files.pilots.pilots
        kind = run.preset.engineer.pilot_score
        scores = [(one.value(kind), one.config) for one in pilots]
        best = max(scores, key=lambda scored: scored[0])[1] if scores else found.configs[0]
        chosen = next(candidate for candidate in found.candidates if candidate.proposal.config == best)
        files.write(Stage.proposal, chosen.proposal)
        files.write(Stage.state, chosen.state)

    decides = {
        "candidates": candidates.outputs[Stage.candidates.name],
        "pilots": pilots.outputs,
        "score": run.preset.engineer.pilot_score,
    }
    return run_step(files.directory, "choose", decides, (Stage.proposal.name, Stage.state.name), body)
