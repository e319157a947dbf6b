"""What Prefect costs a stage: a curriculum whose steps are all done, as flows on a server against the same
steps as plain functions.

With nothing to compute, both find every step finished by its digest, so that the difference is what flows,
tasks, artifacts and log lines take. The updates of the progress bar, which only a stage that trains sends,
are timed on their own and added."""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from support.prefect_servers import prefect_server

STAGES, REPEATS = 2, 5
SETTINGS = {"stages": STAGES, "instances": 16, "epochs": 1, "validation.instances": 1, "engineer.pilot": 2}
"""The tiny preset with little to compute: what is measured does not depend on it."""
STAGE_SECONDS, UPDATES = 120, 12
"""A stage of two minutes shows its progress every ten seconds."""


def overhead() -> tuple[float, float, float]:
    """(seconds a stage as flows, the same as plain functions, one progress update), medians."""
    with tempfile.TemporaryDirectory() as folder, prefect_server(Path(folder)) as api:
        os.environ |= {
            "PREFECT_API_URL": api,
            "PREFECT_HOME": f"{folder}/client",
            "ENVWRIGHT_RUNS": f"{folder}/runs",
            "OMP_NUM_THREADS": "1",
        }
        # Prefect reads its settings when it is imported.
        from flows.curriculum import curriculum
        from flows.parameters import CurriculumOptions

        def flows() -> None:
            curriculum("tiny", "measured", CurriculumOptions(settings=SETTINGS))

        flows()
        as_flows, plain = _median(flows), _median(lambda: _plain(Path(folder) / "runs" / "measured"))
        return as_flows / STAGES, plain / STAGES, _update_seconds()


def _plain(directory: Path) -> None:
    """All steps of the curriculum as plain functions, in the order of `flows.curriculum`."""
    from tasks.pilot import choose, score_candidates

    from engineer.gate import BASE_POLICY
    from infra.config.preset import load_preset
    from infra.runs.lease import exclusive
    from infra.runs.run import RunRef, open_run
    from tasks.data import generate, make_validation
    from tasks.engineer import propose
    from tasks.gate import judge
    from tasks.learn import evaluate_stage, evaluate_start, summarize, train
    from tasks.lineage import record_lineage
    from tasks.publish import publish, write_manifest

    preset = load_preset("tiny", SETTINGS)
    with exclusive(directory):
        open_run(directory, preset)
        run = RunRef(directory=directory, preset=preset)
        validation = make_validation.fn(run)
        evaluate_start.fn(run, validation)
        config, parent = preset.default_config, BASE_POLICY
        for number in range(preset.stages):
            data = generate.fn(run, number, config, validation)
            checkpoint = train.fn(run, number, data, parent)
            rollouts = evaluate_stage.fn(run, number, checkpoint, validation)
            breakdown = summarize.fn(run, number, rollouts)
            gate = judge.fn(run, number, rollouts)
            candidates = propose.fn(run, number, breakdown, gate)
            pilots = score_candidates.fn(run, number, candidates, gate)
            done = [
                data,
                checkpoint,
                rollouts,
                breakdown,
                gate,
                candidates,
                pilots,
                choose.fn(run, number, candidates, pilots),
            ]
            write_manifest.fn(run, number, done)
            publish.fn(run, number)
            record_lineage.fn(run, number)
            config, parent = run.stage(number).proposal.config, number


def _update_seconds() -> float:
    from prefect import flow
    from prefect.artifacts import create_progress_artifact, update_progress_artifact

    @flow
    def updates() -> float:
        bar = create_progress_artifact(progress=0.0, key="measured")
        return _median(lambda: update_progress_artifact(bar, progress=50.0, description="step 37 of 74"))

    return updates()


def _median(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)
