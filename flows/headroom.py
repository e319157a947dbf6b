"""The flow of a headroom measurement: constant configs, then, if wanted, a greedy look-ahead over them."""

from pathlib import Path

from flows.environment import prepare

prepare()

from prefect import flow
from prefect.runtime import flow_run

from envgen.errors import ChildError
from envgen.files import write_json
from flows.compare import children_environment, run_each
from flows.compare_children import Children
from flows.parameters import Jobs
from infra.comparison.gather import finished
from infra.headroom.page import write_page
from infra.headroom.results import Headroom, chain_name, chosen_rate, constant_name, gather
from infra.headroom.spec import HeadroomSpec, load_headroom
from infra.preset import Preset
from infra.runs.fork import fork
from infra.runs.lease import exclusive
from infra.settings import Settings
from tasks.run import log

RESULTS = "headroom.json"
Chain = tuple[str, ...]
"""Configs, one for each stage."""


@flow(name="headroom", flow_run_name="headroom {name}")
def headroom(name: str, jobs: Jobs = 1) -> Headroom:
    """Measure what designing could be worth on a preset; a repeated call continues.

    Args:
        name: A shipped spec (tiny, wide, recipe), or the path of a YAML file.
        jobs: Curricula at a time; they share the cores.
    """
    spec = load_headroom(name)
    directory = Settings().run_directory(f"headroom-{spec.name}")
    with exclusive(directory):
        children = Children(directory, children_environment(jobs, None), flow_run.id)
        _run(directory, {constant_name(config, seed): spec.constant(config, seed) for seed in spec.seeds for config in spec.configs}, children, jobs)
        chains: dict[int, Chain] = dict.fromkeys(spec.seeds, ())
        for stage in range(spec.stages if spec.look_ahead else 0):
            if stage:
                _train_candidates(directory, spec, chains, children, jobs)
            chains = {seed: _longer(directory, spec, chain, seed) for seed, chain in chains.items()}
            log.info("look-ahead, stage %d: %s", stage, "; ".join(f"seed {seed}: {chain[-1]}" for seed, chain in chains.items()))
        results = gather(directory, spec, chains)
        write_json(directory / RESULTS, results)
        write_page(directory, results)
    return results


def _longer(directory: Path, spec: HeadroomSpec, chain: Chain, seed: int) -> Chain:
    """The chain with the config at its end after which the policy solves most."""
    rates = {}
    for config in spec.configs:
        tried = (*chain, config)
        found = finished(directory / chain_name(tried, seed), spec.step(tried, seed))
        assert found is not None
        rates[config] = chosen_rate(found)
    return (*chain, max(rates, key=lambda config: rates[config]))


def _train_candidates(directory: Path, spec: HeadroomSpec, chains: dict[int, Chain], children: Children, jobs: int) -> None:
    """Train one more stage on every config from the end of each chain."""
    todo = {}
    for seed, chain in chains.items():
        for config in spec.configs:
            name, preset = chain_name((*chain, config), seed), spec.step((*chain, config), seed)
            fork(directory / chain_name(chain, seed), directory / name, preset, stages=len(chain))
            todo[name] = preset
    _run(directory, todo, children, jobs)


def _run(directory: Path, todo: dict[str, Preset], children: Children, jobs: int) -> None:
    """Run the curricula of these directories and presets to their ends; ChildError names those that failed."""
    left = [name for name, preset in todo.items() if not finished(directory / name, preset)]
    log.info("%d curricula, %d of them finished already; %d at a time", len(todo), len(todo) - len(left), jobs)
    failed: dict[str, str] = {}

    def ended(name: str, error: BaseException | None) -> None:
        if error is not None:
            failed[name] = str(error) or type(error).__name__
        log.info("%s: %s", name, f"failed: {failed[name]}" if error else "finished")

    run_each(left, jobs, lambda name: children.run(name, name, todo[name]), ended, children.stop)
    if failed:
        raise ChildError(f"{len(failed)} of {len(left)} curricula failed: {', '.join(failed)}. Run the same command again to continue them")
