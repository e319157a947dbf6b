"""The flows of a curriculum: order and nothing else. A complete stage is verified and not entered again; in
an open one every step asks the stage directory whether it is done."""

import os
from pathlib import Path

from prefect import flow, tags
from prefect.runtime import flow_run
from pydantic import ValidationError

from engineer.engineers.registry import engineer_label
from engineer.gate import BASE_POLICY
from envgen.config import EnvConfig
from envgen.errors import EnvwrightError, RunDirectoryError
from envgen.processes import end_with_parent
from flows.environment import ENDS_WITH_WORKER
from flows.parameters import AS_IN_PRESET, AnyPreset, CurriculumOptions, Membership, chosen_curriculum
from infra.config.preset import Preset
from infra.config.settings import TAG, Settings
from infra.results import CurriculumResults
from infra.runs.context import design_context
from infra.runs.files import MANIFEST
from infra.runs.fork import fork
from infra.runs.lock import exclusive
from infra.runs.next_config import must_ask, next_config
from infra.runs.run import Run, open_run, training_was_checked
from infra.runs.run_log import kept_log
from infra.runs.steps import Stored, intact, recorded_files
from policy.checkpoints import is_simulated
from policy.grpo.launch import check_machine
from policy.grpo.train_spec import CHECKPOINT
from tasks.data import generate, make_test, make_validation
from tasks.design import check_engineer, judge, propose
from tasks.learn import evaluate_stage, evaluate_start, evaluate_test, require_solved, summarize, train
from tasks.publish import publish, write_manifest
from tasks.record import record_stages, record_start, recorded, show_result
from tasks.run import close_engine, log


@flow(name="stage", flow_run_name="stage {number} · {engineer}")
def stage(
    run: Run,
    number: int,
    config: EnvConfig,
    validation: Stored,
    parent: int,
    engineer: str,
    test: Stored | None = None,
) -> tuple[CurriculumResults, dict[str, str]]:
    """One turn of the loop: generate, train, evaluate, test, summarize, judge, design; publish and record.

    Returns the results so far, and where MLflow shows them."""
    data = generate(run, number, config, validation, test)
    checkpoint = train(run, number, data, run.model(parent))
    rollouts = evaluate_stage(run, number, checkpoint, validation)
    if test:
        evaluate_test(run, number, checkpoint, test)
    breakdown = summarize(run, number, run.evaluation(parent), rollouts)
    gate = judge(run, number, run.evaluation(run.best(number - 1)), rollouts)
    propose(run, number, design_context(run, number, breakdown), gate)
    write_manifest(run, number)
    results = publish(run, number)
    addresses = record_stages(run, number)
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
    if ENDS_WITH_WORKER in os.environ:
        end_with_parent()
    resolved, chosen = chosen_curriculum(preset, name, options)
    directory, root = Settings().run_directory(chosen), None
    if comparison:
        directory = comparison.directory(chosen)
        root = comparison.directory(comparison.root) if comparison.root else None
    return run_curriculum(resolved, directory, root)


def run_curriculum(preset: Preset, directory: Path, root: Path | None = None) -> CurriculumResults:
    """Run a preset in a run directory, a new one from the stage 0 of the run `root`. ConfigError if training
    lacks a package or a GPU, or TRL refuses an option; ModelError if the engineer does not answer."""
    if not is_simulated(preset.model):
        check_machine(preset.trl, preset.training)
    if not training_was_checked(directory, preset):
        if root is None:  # else the run with that stage 0 was checked
            preset.plan()
        check_engineer(preset)
    with exclusive(directory), tags(TAG):
        if root:
            fork(root, directory, preset)
        run = open_run(directory, preset)
        with kept_log(run), recorded(run):
            try:
                return _stages(run)
            finally:
                close_engine()


def _complete(run: Run) -> int:
    """Number of complete stages, whose files are as their steps wrote them. A checkpoint is read only if an
    open stage starts from it."""
    stages = run.preset.stages
    done = 0
    while done < stages and _is_complete(run, done):
        done += 1
    if 0 < done < stages:
        parent = run.parent(done)
        if parent != BASE_POLICY and not intact(run.folder(parent)):
            return parent
    return done


def _is_complete(run: Run, number: int) -> bool:
    """Whether the manifest of a stage names the files that its steps recorded, and they are unchanged."""
    files = recorded_files(run.folder(number))
    try:
        named = run.read(MANIFEST, number).get("files", {})
    except RunDirectoryError:
        return False
    return named == files and intact(run.folder(number), without=CHECKPOINT)


def _stages(run: Run) -> CurriculumResults:
    preset, engineer = run.preset, run.preset.engineer
    label = engineer_label(engineer.name, engineer.context)
    done = _complete(run)
    results, places, validation, test = None, dict[str, str](), None, None
    if done:
        from infra.mlflow_log import is_logged

        # An earlier call may have ended before it published or recorded them.
        results = publish(run, done - 1)
        if not is_logged(run.directory):
            record_stages(run, done - 1)
        log.info("%d of %d stages are complete", done, preset.stages)
        show_result(run, results, places)
    for number in range(done, preset.stages):
        config = _decided(run, number - 1, results, places) if number else preset.start_config
        if config is None:
            results = publish(run, number - 1)
            break
        record_start(run)
        if validation is None:
            validation = make_validation(run)
            evaluate_start(run, BASE_POLICY, run.model(BASE_POLICY), validation)
            require_solved(run)
            if preset.test:
                test = make_test(run, None, validation)
                evaluate_test(run, BASE_POLICY, run.model(BASE_POLICY), test)
        if not number and preset.default_config is None:
            config, changes = run.possible(0, config)
            for change in changes:
                log.info("random start: %s", change)
        first = "" if number else ", default config"
        log.info("stage %d (%d of %d)%s", number, number + 1, preset.stages, first)
        results, places = stage(run, number, config, validation, run.parent(number), label, test)
        show_result(run, results, places)
    assert results is not None
    return results


def _decided(
    run: Run, stage: int, results: CurriculumResults | None, places: dict[str, str]
) -> EnvConfig | None:
    """The config of the stage after `stage`; None if the run ends there, or waits for a person's decision."""
    if results and must_ask(run, stage):
        from flows.approval import ask, waits_for

        show_result(run, results, places, waits_for(run, stage))
        ask(run, stage)
        show_result(run, results, places)
    return next_config(run, stage)
