from pathlib import Path

from boards import detour, draw_instances, off_the_grid, optimal, rollout, unfinished

from envgen.mapf.problem import Instance
from envgen.mapf.prompts import PromptStyle, answer
from envgen.mapf.verifier import FailureCategory
from policy.rollouts import read_rollouts, write_rollouts

INSTANCES = draw_instances()


def into_a_hole(instance: Instance) -> str:
    """Agent 0 walks over the grid to the first hole, whatever is on its way."""
    (row, column), (to_row, to_column) = instance.problem.agents[0].start, instance.problem.holes[0]
    path = [(row, column)]
    while (row, column) != (to_row, to_column):
        if row != to_row:
            row += 1 if row < to_row else -1
        else:
            column += 1 if column < to_column else -1
        path.append((row, column))
    return answer((tuple(path), (instance.problem.agents[1].start,)))


RESPONSES = [optimal, detour, off_the_grid, unfinished, into_a_hole, lambda i: ""]
RESPONSES += [lambda i: "ünï\u2028\U0001f600\x00 Agent 0:"]
# The first cell, agent and step are no nothing, and the largest numbers fit.
RESPONSES += [lambda i: "Agent 0: (0,0)\nAgent 1: (0,1)", lambda i: starts(i, "(999,999)", "(999,0)")]
RESPONSES += [lambda i: starts(i, times=500)]


def starts(instance: Instance, first: str = "", second: str = "", times: int = 1) -> str:
    """Plans that stand at the start so many steps, and then go there."""
    cells = [str(agent.start).replace(" ", "") * times for agent in instance.problem.agents]
    return f"Agent 0: {cells[0]}{first}\nAgent 1: {cells[1]}{second}"


def test_rollouts_of_every_kind_are_read_back_as_they_were(tmp_path: Path):
    kinds = [
        rollout(instance, respond(instance), truncated=index % 2 == 1)
        for index, respond in enumerate(RESPONSES)
        for instance in INSTANCES
    ]
    for written in (kinds, []):
        write_rollouts(tmp_path / "r.parquet", written, PromptStyle.COMPACT)
        assert read_rollouts(tmp_path / "r.parquet") == written
    failures = {FailureCategory.PARSE_ERROR, FailureCategory.ILLEGAL_MOVE, FailureCategory.GOAL_NOT_REACHED}
    assert {None, *failures} <= {r.verdict.category for r in kinds}
    assert {None, (0, 0)} <= {r.verdict.cell for r in kinds}
    for field in ("agent", "step"):
        assert {None, 0} <= {getattr(r.verdict, field) for r in kinds}
