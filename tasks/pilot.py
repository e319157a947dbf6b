"""Pilot the proposed configs with the policy that would train on them, and choose."""

from prefect import task

from envgen.config import EnvConfig
from envgen.errors import ModelError, SamplingError
from envgen.files import file_digest, write_json
from envgen.frozen import Frozen
from envgen.sampler import sample
from envgen.seeds import seed_integer
from infra.runs.decision import PROPOSAL
from infra.runs.steps import StepRecord, run_step
from infra.settings import Settings
from infra.stage_view import pilot_text
from policy.answers import KeptAnswers
from policy.chat import Sampling
from policy.pilot import pilot
from policy.pilot_score import Piloted
from policy.train_spec import answer_tokens, group_size, reward_scale
from tasks.data import held_out
from tasks.design import CANDIDATES, STATE, read_candidates
from tasks.run import RunRef, engine, log, policy_identity, read_gate, reporting, task_options

PILOT = "pilot.json"
PARTIAL = "pilot.partial.jsonl"
"""The answers of a pilot that was cut off."""


class Pilots(Frozen):
    """The scores of all different configs that were proposed after a stage; none if the pilot is off."""

    pilots: tuple[Piloted, ...]


@task(**task_options("pilot"))
def score_candidates(run: RunRef, stage: int, candidates: StepRecord, gate: StepRecord) -> StepRecord:
    """Write `pilot.json`: the expected learning signal of each proposed config for the policy that would train on it."""
    preset, directory = run.preset, run.stage(stage)
    decision = read_gate(run, stage)

    def body() -> None:
        configs = read_candidates(run, stage).configs if preset.design.pilot else []
        pilots = tuple(_pilot(run, stage, decision.in_force, config) for config in configs)
        for number, piloted in enumerate(pilots, start=1):
            log.info("stage %d: pilot of config %d: %s", stage, number, pilot_text(piloted))
        write_json(directory / PILOT, Pilots(pilots=pilots))

    decides = {
        "candidates": candidates.outputs[CANDIDATES],
        "gate": gate.key,
        "policy": policy_identity(run, decision.in_force),
        "validation": file_digest(run.validation),
        "pilot": preset.design.pilot,
        "trl": [group_size(preset.trl), answer_tokens(preset.trl), reward_scale(preset.trl)],
        "rewards": preset.rewards,
        "agents": preset.agents,
        "style": preset.prompt_style,
        **preset.engine.decides,
        "seed": preset.seed,
    }
    return run_step(directory, "pilot", decides, (PILOT,), body, kept=PARTIAL)


def _pilot(run: RunRef, stage: int, policy: int, config: EnvConfig) -> Piloted:
    preset = run.preset
    try:
        drawn = {"agents": preset.agents, "seed": preset.seed, "stage": stage, "held_out": held_out(run), "workers": Settings().workers}
        instances, _ = sample(config, preset.design.pilot, purpose="pilot", **drawn)
        model = engine(run.policy(policy), preset.engine, run.stage(stage) / "logs" / "engine.log")
        # As in training: temperature 1, the same answer length and group size.
        sampling = Sampling(max_tokens=answer_tokens(preset.trl), temperature=1.0, seed=seed_integer(preset.seed, stage, "pilot"))
        progress = reporting(f"stage {stage}: pilot: %d of {preset.design.pilot * group_size(preset.trl)} answers")
        how = (preset.prompt_style, sampling, preset.rewards, reward_scale(preset.trl), progress)
        kept = KeptAnswers(model, run.stage(stage) / PARTIAL, {"model": policy_identity(run, policy), **preset.engine.decides})
        return Piloted(config=config, score=pilot(kept, instances, group_size(preset.trl), *how))
    except (ModelError, SamplingError) as error:  # a score is not worth a run
        return Piloted(config=config, score=None, error=str(error))


def read_pilots(run: RunRef, stage: int) -> Pilots:
    """The pilot scores of a finished stage."""
    return Pilots.model_validate_json((run.stage(stage) / PILOT).read_bytes())


@task(**task_options("choose"))
def choose(run: RunRef, stage: int, candidates: StepRecord, pilots: StepRecord) -> StepRecord:
    """Write `proposal.json`, the config of the next stage, and `designer_state.json`, from the candidate with the best pilot.

    The best has the largest mean absolute advantage; of equals the first drawn. The state follows from the context, which
    holds the state of the stage before: a step that was cut off between its two files is not done, and its repetition
    writes the same.
    """
    directory = run.stage(stage)

    def body() -> None:
        found = read_candidates(run, stage)
        scores = [(score.advantage.value if (score := pilot.score) else -1.0, pilot.config) for pilot in read_pilots(run, stage).pilots]
        best = max(scores, key=lambda scored: scored[0])[1] if scores else found.configs[0]
        chosen = next(candidate for candidate in found.candidates if candidate.proposal.config == best)
        write_json(directory / PROPOSAL, chosen.proposal)
        write_json(directory / STATE, chosen.state)

    decides = {"candidates": candidates.outputs[CANDIDATES], "pilots": pilots.outputs}
    return run_step(directory, "choose", decides, (PROPOSAL, STATE), body)
