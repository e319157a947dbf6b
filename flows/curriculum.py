"""The flows of a curriculum: order and nothing else. Every step asks the stage directory whether it is done."""

from flows.environment import prepare

prepare()

from prefect import flow

from engineer.gate import START
from envgen.config import EnvConfig
from infra.preset import Preset
from infra.results import CurriculumResults
from infra.run_directory import Curriculum, exclusive, open_run
from infra.settings import Settings
from infra.steps import StepRecord
from tasks.data import generate, make_validation
from tasks.design import engineer, read_proposal
from tasks.gate import judge
from tasks.learn import evaluate_stage, evaluate_start, summarize, train
from tasks.lineage import record_lineage
from tasks.pilot import choose, score_candidates
from tasks.publish import publish, write_manifest
from tasks.run import Parent, RunRef, close_engine, log, read_gate


@flow(name="stage", flow_run_name="stage {number} · {variant} · {designer}")
def stage(run: RunRef, number: int, config: EnvConfig, validation: StepRecord, parent: Parent, variant: str, designer: str) -> list[StepRecord]:
    """One turn of the loop: generate, train, evaluate, summarize, judge, engineer, pilot, choose."""
    data = generate(run, number, config, validation)
    checkpoint = train(run, number, data, parent)
    rollouts = evaluate_stage(run, number, checkpoint, validation)
    breakdown = summarize(run, number, rollouts)
    gate = judge(run, number, rollouts)
    candidates = engineer(run, number, breakdown, gate)
    pilots = score_candidates(run, number, candidates, gate)
    proposal = choose(run, number, candidates, pilots)
    steps = [data, checkpoint, rollouts, breakdown, gate, candidates, pilots, proposal]
    write_manifest(run, number, steps)
    return steps


@flow(name="curriculum", flow_run_name="{name}")
def curriculum(preset: Preset, name: str) -> CurriculumResults:
    """Train a policy in stages; after each stage the designer writes the next environment config.

    A repeated call with the same preset and name continues after the last complete step.
    """
    directory = Settings().run_directory(name)
    with exclusive(directory):
        opened = open_run(directory, preset)
        run = RunRef(directory=directory, preset=preset)
        try:
            return _stages(run, opened)
        finally:
            close_engine()


def _stages(run: RunRef, opened: Curriculum) -> CurriculumResults:
    preset = run.preset
    validation = make_validation(run)
    start = evaluate_start(run, validation)
    config = preset.default_config
    identities = {START: start.key}
    parent = START
    steps: dict[int, list[StepRecord]] = {}
    results = None
    for number in range(preset.stages):
        log.info("stage %d of %d%s", number, preset.stages - 1, "" if number else " (default config)")
        steps[number] = stage(run, number, config, validation, Parent(stage=parent, identity=identities[parent]), preset.design.variant, preset.design.designer)
        results = publish(run, number + 1, steps)
        record_lineage(run, opened, number)
        identities[number] = steps[number][1].outputs["checkpoint"]
        config, parent = read_proposal(run, number).config, read_gate(run, number).in_force
    assert results is not None
    return results
