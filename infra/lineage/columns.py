"""The rates by which evaluations are compared, as MLflow's columns."""

from collections.abc import Callable

from policy.rollouts import Rollout


def scores(rollouts: list[Rollout]) -> dict[str, float]:
    """Valid and optimal rates of an evaluation: of all, and by map size, by number of agents and by whether somebody has to wait."""
    groups: dict[str, list[Rollout]] = {"": rollouts}
    by: tuple[Callable[[Rollout], str], ...] = (
        lambda r: f"/{r.instance.problem.size}x{r.instance.problem.size}",
        lambda r: f"/agents-{r.instance.problem.num_agents}",
        lambda r: "/wait" if r.instance.solution.wait_required else "/no-wait",
    )
    for rollout in rollouts:
        for name in by:
            groups.setdefault(name(rollout), []).append(rollout)
    rates = {}
    for group, members in groups.items():
        rates[f"valid{group}"] = sum(r.verdict.valid for r in members) / len(members)
        rates[f"optimal{group}"] = sum(r.verdict.optimal for r in members) / len(members)
    return rates
