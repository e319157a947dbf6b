"""The flow of a headroom measurement: constant configs, then, if wanted, a greedy look-ahead over them."""

from pathlib import Path

from flows.environment import prepare

prepare()

from prefect import flow

from envgen.errors import ChildError
from flows.compare import run_comparison, run_each
from flows.compare_children import Children, shares_of_gpus
from flows.parameters import Jobs
from infra.analysis.gather import ended, finished
from infra.analysis.headroom.results import Headroom, gather, last_rate, write_results
from infra.analysis.headroom.spec import Chain, HeadroomSpec, load_headroom
from infra.config.preset import Preset
from infra.config.settings import Settings
from infra.runs.fork import fork
from infra.runs.lease import exclusive
from tasks.run import log


@flow(name="headroom", flow_run_name="headroom {name}")
def headroom(name: str, jobs: Jobs = 1) -> Headroom:
    """Measure what designing could be worth on a preset; a repeated call continues.

    Args:
        name: A shipped spec (tiny, wide, recipe, puzzles, puzzles-recipe), or the path of a YAML file.
        jobs: Curricula at a time; they share the cores, and each has its own of the GPUs that can be seen.
    """
    spec = load_headroom(name)
    directory = Settings().run_directory(spec.comparison.name)
    run_comparison(spec.comparison, directory, jobs)
    with exclusive(directory):
        children = Children(directory, jobs, shares_of_gpus([spec.comparison.preset], jobs))
        chains: dict[int, Chain] = dict.fromkeys(spec.seeds, ())
        for stage in range(spec.stages if spec.look_ahead else 0):
            if stage:
                _train_candidates(directory, spec, chains, children, jobs)
            chains = {seed: _longer(directory, spec, chain, seed) for seed, chain in chains.items()}
            chosen = "; ".join(f"seed {seed}: {chain[-1]}" for seed, chain in chains.items())
            log.info("look-ahead, stage %d: %s", stage, chosen)
        results = gather(directory, spec, chains)
        write_results(directory, results)
    return results


def _longer(directory: Path, spec: HeadroomSpec, chain: Chain, seed: int) -> Chain:
    """The chain with the config at its end after which the policy solves most."""

    def solved(config: str) -> float:
        name, preset = spec.step((*chain, config), seed)
        return last_rate(ended(directory / name, preset))

    return (*chain, max(spec.configs, key=solved))


def _train_candidates(
    directory: Path, spec: HeadroomSpec, chains: dict[int, Chain], children: Children, jobs: int
) -> None:
    """Train one more stage on every config from the end of each chain; ChildError names those that failed."""
    todo: dict[str, Preset] = {}
    for seed, chain in chains.items():
        source, _ = spec.step(chain, seed)
        for config in spec.configs:
            name, preset = spec.step((*chain, config), seed)
            fork(directory / source, directory / name, preset, stages=len(chain))
            todo[name] = preset
    left = [name for name, preset in todo.items() if not finished(directory / name, preset)]
    done = len(todo) - len(left)
    log.info("%d curricula, %d of them finished already; %d at a time", len(todo), done, jobs)
    failed: list[str] = []

    def over(name: str, error: BaseException | None, stands: str) -> None:
        failed.extend([name] if error else [])
        log.info("%s: %s; %s", name, f"failed: {error}" if error else "finished", stands)

    run_each(left, jobs, lambda name: children.run(name, name, todo[name]), over, children.stop)
    if failed:
        names = f"{len(failed)} of {len(left)} curricula failed: {', '.join(failed)}"
        raise ChildError(f"{names}. Run the same command again")
