import subprocess
import sys

import numpy as np
import pytest
from board_makers import make_problem, problems, repeatable, solved_instances
from gymnasium.error import ResetNeeded
from hypothesis import given, settings
from hypothesis import strategies as st
from pettingzoo.test import parallel_api_test, parallel_seed_test

from envgen.boards import board
from envgen.errors import DataError
from envgen.parallel_env import ACTIONS, MapfParallelEnv
from envgen.problem import Instance, Move, Problem, moves_of
from envgen.solver import solve
from envgen.verifier import FailureCategory, verify_plan

SOLVED = [*solved_instances(1, 12, 4, 4, 3), *solved_instances(2, 6, 6, 12, 3), *solved_instances(3, 4, 5, 2, 5), *solved_instances(4, 4, 3, 2, 1)]


def act(env: MapfParallelEnv, *moves: Move) -> tuple[dict, ...]:
    return env.step({name: ACTIONS.index(move) for name, move in zip(env.agents, moves, strict=True)})


def played(env: MapfParallelEnv, steps: list[tuple[Move, ...]]) -> tuple[list[float], tuple[dict, ...]]:
    """Sum of rewards per agent, and the last step's result."""
    env.reset()
    sums, last = np.zeros(len(env.possible_agents)), ({}, {}, {}, {}, {})
    for moves in steps:
        last = act(env, *moves)
        sums += list(last[1].values())
    return list(sums), last


def in_step(instance: Instance) -> list[tuple[Move, ...]]:
    paths = [moves_of(path) for path in instance.solution.plan]
    return [tuple(path[step] if step < len(path) else Move.WAIT for path in paths) for step in range(max(1, instance.solution.makespan))]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("max_steps", [1, 30])
def test_the_api_test_of_pettingzoo_passes(max_steps: int):
    parallel_api_test(MapfParallelEnv(board("parallel"), max_steps), num_cycles=60)
    parallel_api_test(MapfParallelEnv([i.problem for i in SOLVED[:18]], max_steps), num_cycles=60)


def test_the_seed_test_of_pettingzoo_passes():
    boards = [instance.problem for instance in SOLVED[:18]]
    parallel_seed_test(lambda: MapfParallelEnv(boards), num_cycles=60)
    parallel_seed_test(lambda: MapfParallelEnv(board("crossing")), num_cycles=60)


@pytest.mark.parametrize("instance", SOLVED, ids=[i.problem.id or str(n) for n, i in enumerate(SOLVED)])
def test_the_rewards_of_an_optimal_plan_sum_to_minus_its_cost(instance: Instance):
    env = MapfParallelEnv(instance.problem)
    steps = in_step(instance)
    sums, (_, _, terminations, truncations, infos) = played(env, steps)
    assert sum(sums) == -instance.solution.sum_of_costs
    assert sums == [-(len(path) - 1) for path in instance.solution.plan]
    assert all(terminations.values())
    assert not any(truncations.values())
    assert env.agents == []
    verdict = infos["agent_0"]["verdict"]
    assert (verdict.valid, verdict.sum_of_costs) == (True, instance.solution.sum_of_costs)


@settings(repeatable, max_examples=80)
@given(problems(max_size=4, max_agents=3, max_hole_share=0.2), st.lists(st.lists(st.sampled_from(Move), min_size=3, max_size=3), min_size=15, max_size=15))
def test_any_episode_ends_as_the_verifier_judges_its_moves(problem: Problem, moves: list[list[Move]]):
    env = MapfParallelEnv(problem, max_steps=12)
    env.reset()
    sums = dict.fromkeys(env.possible_agents, 0.0)
    for step in moves:
        observations, rewards, terminations, truncations, infos = act(env, *step[: problem.num_agents])
        assert all(env.observation_space(name).contains(value) for name, value in observations.items())
        sums = {name: sums[name] + rewards[name] for name in sums}
        if not env.agents:
            break
    verdict = infos["agent_0"]["verdict"]
    assert verdict == verify_plan(problem, env._plan)
    assert set(terminations.values()) == {verdict.valid or verdict.category is not FailureCategory.GOAL_NOT_REACHED}
    assert set(truncations.values()) == {verdict.category is FailureCategory.GOAL_NOT_REACHED}
    if verdict.valid:
        assert sum(sums.values()) == -verdict.sum_of_costs
    else:
        assert set(sums.values()) == {-12}


def test_leaving_the_goal_pays_for_the_rest_there():
    env = MapfParallelEnv(make_problem(3, (), ((0, 1), (2, 0)), ((0, 0), (2, 2))))
    env.reset()
    paid = [
        act(env, *moves)[1]["agent_0"]
        for moves in [(Move.LEFT, Move.WAIT), (Move.WAIT, Move.WAIT), (Move.DOWN, Move.WAIT), (Move.UP, Move.RIGHT), (Move.WAIT, Move.RIGHT)]
    ]
    assert paid == [-1, 0, -2, -1, 0]
    assert env.agents == []


@pytest.mark.parametrize(
    ("moves", "category"),
    [
        ((Move.UP, Move.WAIT), FailureCategory.ILLEGAL_MOVE),
        ((Move.LEFT, Move.WAIT), FailureCategory.HOLE_COLLISION),
        ((Move.DOWN, Move.RIGHT), FailureCategory.CONFLICT),
    ],
)
def test_a_broken_rule_ends_the_episode_for_all_and_costs_the_limit(moves: tuple[Move, ...], category: FailureCategory):
    env = MapfParallelEnv(board("crossing"), max_steps=20)
    sums, (_, _, terminations, truncations, infos) = played(env, [(Move.WAIT, Move.WAIT), moves])
    assert sums == [-20, -20]
    assert (set(terminations.values()), set(truncations.values())) == ({True}, {False})
    assert {info["verdict"].category for info in infos.values()} == {category}
    assert infos["agent_1"]["verdict"].step == 2


def test_an_observation_shows_holes_then_oneself_then_the_others_in_turn():
    small, large = make_problem(3, ((1, 1),), ((0, 0), (0, 1), (0, 2)), ((2, 0), (2, 1), (2, 2))), SOLVED[12].problem
    env = MapfParallelEnv([small, large])
    observations, _ = env.reset(seed=0)
    while env.problem != small:
        observations, _ = env.reset()
    seen = observations["agent_1"]
    assert seen.shape == (7, 6, 6)
    assert seen[0].sum() == 36 - 9 + 1
    assert seen[0, 1, 1] == seen[0, 3, 0] == 1
    assert [tuple(np.argwhere(plane)[0]) for plane in seen[1:]] == [(0, 1), (2, 1), (0, 2), (2, 2), (0, 0), (2, 0)]


def test_an_agent_that_left_the_board_is_nowhere():
    env = MapfParallelEnv(board("crossing"))
    env.reset()
    observations, *_ = act(env, Move.UP, Move.WAIT)
    assert observations["agent_0"][1].sum() == 0
    assert observations["agent_0"][2].sum() == 1


def test_a_seed_fixes_the_series_of_boards_and_one_board_needs_none():
    env = MapfParallelEnv([instance.problem for instance in SOLVED[:12]])

    def series(seed: int) -> list[Problem]:
        env.reset(seed=seed)
        return [env.problem] + [env.reset() and env.problem for _ in range(8)]

    assert series(1) == series(1) != series(2)
    assert len(set(map(repr, series(1)))) > 2


@pytest.mark.parametrize("actions", [{}, {"agent_0": 4}, {"agent_0": 4, "agent_1": 5}, {"agent_0": -1, "agent_1": 4}, {"agent_0": 4, "agent_1": "WAIT"}])
def test_an_action_that_is_none_is_refused_by_the_name_of_its_agent(actions: dict):
    env = MapfParallelEnv(board("crossing"))
    env.reset()
    with pytest.raises(ValueError, match=r"agent_[01]: action .*; expected an integer from 0 to 4"):
        env.step(actions)


def test_stepping_before_a_reset_or_after_the_end_is_refused():
    env = MapfParallelEnv(board("crossing"), max_steps=1)
    with pytest.raises(ResetNeeded):
        env.step({})
    env.reset()
    act(env, Move.WAIT, Move.WAIT)
    with pytest.raises(ResetNeeded):
        env.step({"agent_0": 4, "agent_1": 4})


def test_boards_that_do_not_go_together_are_refused():
    for wrong in ([], [board("crossing"), board("ring-order")]):
        with pytest.raises(DataError, match="all with the same number of agents"):
            MapfParallelEnv(wrong)
    with pytest.raises(DataError, match="max_steps is 0"):
        MapfParallelEnv(board("crossing"), max_steps=0)


def test_the_same_plan_is_judged_alike_by_solver_and_environment():
    assert sum(played(MapfParallelEnv(board("corridor-22")), in_step(Instance(problem=board("corridor-22"), solution=solve(board("corridor-22")))))[0]) == -22


def test_without_pettingzoo_the_rest_of_envgen_works_and_the_error_names_the_extra():
    code = "import sys; sys.modules['pettingzoo'] = None; import envgen.verifier, envgen.formats, envgen.still; import envgen.parallel_env"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: envgen.parallel_env needs pettingzoo; install it with: pip install 'envwright[pettingzoo]'"
