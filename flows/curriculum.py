"""The flows of a curriculum: order and nothing else. Every step asks the stage directory whether it is
done."""

from pathlib import Path

from prefect import flow, tags
from prefect.runtime import flow_run
from pydantic import ValidationError

from envgen.config import EnvConfig
from envgen.errors import EnvwrightError
from flows.approval import ask, waits_for
from flows.parameters import AS_IN_PRESET, AnyPreset, CurriculumOptions, Membership, chosen_curriculum
from infra.analysis.formats import duration
from infra.analysis.spec import engineer_variant
from infra.config.preset import Preset
from infra.config.settings import Settings
from infra.runs.files import MANIFEST
from infra.runs.lock import exclusive
from infra.runs.next_config import must_ask, next_config
from infra.runs.progress import kept_log, seconds_left
from infra.runs.results import CurriculumResults
from infra.runs.run import RunRef, open_run, training_was_checked
from infra.runs.steps import StepRecord
from infra.serving.reaper import TAG
from policy.grpo.check import plan_training
from policy.grpo.launch import check_devices, check_packages
from tasks.artifacts import show_result
from tasks.data import generate, make_validation
from tasks.engineer import propose
from tasks.gate import judge
from tasks.learn import evaluate_stage, evaluate_start, summarize, train
from tasks.lineage import record_lineage
from tasks.publish import publish, write_manifest
from tasks.remote import copy_run, fetch_run, fork_run
from tasks.run import close_engine, log


@flow(name="stage", flow_run_name="stage {number} · {variant}")
def stage(
    run: RunRef,
    number: int,
    config: EnvConfig,
    validation: StepRecord,
    parent: int,
    variant: str,
) -> tuple[CurriculumResults, dict[str, str]]:
    """One turn of the loop: generate, train, evaluate, summarize, judge, design; publish and record.

    Returns the results so far, and where MLflow shows them."""
    data = generate(run, number, config, validation)
    checkpoint = train(run, number, data, parent)
    rollouts = evaluate_stage(run, number, checkpoint, validation)
    breakdown = summarize(run, number, rollouts)
    gate = judge(run, number, rollouts)
    proposal = propose(run, number, breakdown, gate)
    steps = [data, checkpoint, rollouts, breakdown, gate, proposal]
    write_manifest(run, number, steps)
    results = publish(run, number)
    addresses = record_lineage(run, number)
    copy_run(run.directory)
    return results, addresses


def _run_name() -> str:
    """The name of the curriculum that this flow run is asked for."""
    parameters = flow_run.parameters
    if part_of := parameters.get("comparison"):
        return f"{Membership.model_validate(part_of).folder}/{parameters['name']}"
    try:
        return chosen_curriculum(
            parameters["preset"], parameters["name"], CurriculumOptions.model_validate(parameters["options"])
        )[1]
    except (EnvwrightError, ValidationError):  # the flow itself says what is wrong
        return f"curriculum {parameters.get('preset')}"


@flow(name="curriculum", flow_run_name=_run_name)
def curriculum(
    preset: AnyPreset,
    name: str = "",
    options: CurriculumOptions = AS_IN_PRESET,
    comparison: Membership | None = None,
) -> CurriculumResults:
    """Train a policy in stages; after each stage the engineer writes the next environment config.

    A repeated call that means the same run continues after the last complete step.

    Args:
        preset: A shipped preset, the path of a YAML file on the machine that runs it, or all fields as JSON.
        name: Name of the run; an existing one is continued. Left out, it is made from the preset.
        options: What this run changes in its preset.
        comparison: The comparison that the run is part of, which fills this in.
    """
    resolved, chosen = chosen_curriculum(preset, name, options)
    directory, root = Settings().run_directory(chosen), None
    if comparison:
        directory = comparison.directory(chosen)
        root = comparison.directory(comparison.root) if comparison.root else None
    return run_curriculum(resolved, directory, root)


def run_curriculum(preset: Preset, directory: Path, root: Path | None = None) -> CurriculumResults:
    """The curriculum of a preset in a run directory, a new one from the stage 0 of the run `root`; inside a
    flow run. ConfigError if a package or a GPU is missing that training needs, or TRL refuses an option."""
    check_packages(preset.trl, preset.training)
    check_devices(preset.trl, preset.training)
    # With a root, the run with that stage 0 was checked.
    if root is None and not training_was_checked(directory, preset):
        plan_training(preset.check_spec())
    with exclusive(directory), tags(TAG):
        fetch_run(directory)
        if root:
            fork_run(root, directory, preset)
        run = RunRef(directory=directory, preset=open_run(directory, preset).preset)
        with kept_log(run):
            try:
                return _stages(run)
            finally:
                close_engine()


def _complete(run: RunRef) -> int:
    """Number of complete stages; if the run continues after some, the log says so."""
    stages = run.preset.stages
    done = next((number for number in range(stages) if not run.has(MANIFEST, number)), stages)
    if done and done < stages:
        # Whether someone has to decide is found out later: a damaged proposal is made anew before.
        decision = run.decision(done - 1)
        if decision is None and run.preset.approval == "required":
            log.info("%d of %d stages are complete", done, stages)
        elif decision is None or decision.decision != "stop":
            when = f", after the decision on the proposal of stage {done - 1}" if decision else ""
            log.info("the run goes on with stage %d (%d of %d)%s", done, done + 1, stages, when)
    return done


def _stages(run: RunRef) -> CurriculumResults:
    preset, variant = run.preset, engineer_variant(run.preset.engineer)
    done = _complete(run)
    validation = make_validation(run)
    evaluate_start(run, validation)
    config: EnvConfig | None = preset.default_config
    results, number = None, 0
    for number in range(preset.stages):
        if number >= done:
            first = "" if number else ", default config"
            left = seconds_left(run, number)
            more = "" if left is None else f", about {duration(left)} of the run left"
            log.info("stage %d (%d of %d)%s%s", number, number + 1, preset.stages, first, more)
        results, places = stage(run, number, config, validation, run.parent(number), variant)
        asked = must_ask(run, number)
        show_result(run, results, places, waits_for(run, number) if asked else "")
        if asked:
            ask(run, number)
            show_result(run, results, places)
        config = next_config(run, number)
        if run.decision(number):
            copy_run(run.directory)
        if config is None:
            results = publish(run, number)
            copy_run(run.directory)
            break
    assert results is not None
    return results
