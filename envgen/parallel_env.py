"""MAPF-FrozenLake as a PettingZoo parallel environment, for learners that act step by step.

Needs the extra `pettingzoo`; nothing else of envgen does.

Agents are `agent_0` to `agent_{K-1}` and live until the episode ends for all. An action is an index into `ACTIONS`. An
observation is a uint8 array of shape (1 + 2K, side, side) with values 0 and 1, indexed [plane, row, column]; side is the
largest size among the problems. Plane 0 holds the holes and all that lies off a smaller board. Then come two planes an agent,
its position and its goal: the observing agent first, then the others in cyclic order. Who has left the board has no position.

Rewards of an agent sum to minus its cost, its last arrival: -1 for a step that ends off its goal or arrives there, 0 for resting;
leaving the goal again also pays for the rest so far. When a rule is broken (`illegal_move`, `hole_collision`,
`conflict`), or when the step limit cuts an episode off, every agent ends with the sum -max_steps, so that no failure is
cheaper than a plan. An episode terminates when all agents are on their goals or a rule is broken, and is truncated at the
limit; where all start on their goals, a step of waiting ends it. Every info of its last step holds `verdict`, the `envgen.verifier.Verdict` of all moves made.
"""

from collections.abc import Sequence
from typing import Any

try:
    import numpy as np
    from gymnasium import spaces
    from gymnasium.error import ResetNeeded
    from pettingzoo import ParallelEnv
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"envgen.parallel_env needs {error.name}; install it with: pip install 'envwright[pettingzoo]'", name=error.name) from error

from envgen.errors import DataError
from envgen.problem import Agent, Cell, Move, Plan, Problem, path_of
from envgen.verifier import FailureCategory, Verdict, verify_plan

ACTIONS = tuple(Move)
"""UP, DOWN, LEFT, RIGHT, WAIT: action i is `ACTIONS[i]`."""

Values = dict[str, Any]
"""One value an agent, by its name."""


class MapfParallelEnv(ParallelEnv):
    """One board, or boards with the same number of agents of which each reset draws one."""

    metadata = {"name": "mapf_frozenlake_v0", "render_modes": []}
    render_mode = None

    def __init__(self, problems: Problem | Sequence[Problem], max_steps: int = 100) -> None:
        """`max_steps`, at least 1, is the step limit. DataError for no problems, or for boards that differ in their number of agents."""
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        counts = {problem.num_agents for problem in self.problems}
        if len(counts) != 1:
            raise DataError(f"the problems have {sorted(counts)} agents; give at least one problem, and all with the same number of agents")
        if max_steps < 1:
            raise DataError(f"max_steps is {max_steps}; expected at least 1")
        self.max_steps = max_steps
        self.possible_agents = [f"agent_{index}" for index in range(counts.pop())]
        self.agents: list[str] = []
        self._side = max(problem.size for problem in self.problems)
        shape = (1 + 2 * len(self.possible_agents), self._side, self._side)
        self.observation_spaces = {name: spaces.Box(0, 1, shape, np.uint8) for name in self.possible_agents}
        self.action_spaces = {name: spaces.Discrete(len(ACTIONS)) for name in self.possible_agents}
        self._random = np.random.default_rng()
        self.problem = self.problems[0]
        self._plan: Plan = ()
        self._costs = [0] * len(self.possible_agents)

    def observation_space(self, agent: str) -> spaces.Space:
        """Box of 0 and 1 with shape (1 + 2K, side, side)."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space:
        """Discrete(5), see `ACTIONS`."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict | None = None) -> tuple[Values, Values]:
        """Put all agents on their starts. `seed` starts the series of boards anew; `options` are not read."""
        if seed is not None:
            self._random = np.random.default_rng(seed)
        if len(self.problems) > 1:
            self.problem = self.problems[self._random.integers(len(self.problems))]
        self.agents = list(self.possible_agents)
        self._plan = tuple((agent.start,) for agent in self.problem.agents)
        self._costs = [0] * len(self.agents)
        return self._observations(), {name: {} for name in self.agents}

    def step(self, actions: Values) -> tuple[Values, Values, Values, Values, Values]:
        """Observations, rewards, terminations, truncations and infos after one move of every agent.

        Raises gymnasium's ResetNeeded after the end of an episode, and ValueError unless every agent has an action from 0 to 4.
        """
        if not self.agents:
            raise ResetNeeded("the episode is over; call reset() first")
        for name in self.agents:
            if name not in actions or not self.action_spaces[name].contains(actions[name]):
                raise ValueError(f"{name}: action {actions.get(name)!r}; expected an integer from 0 to {len(ACTIONS) - 1} for each of {', '.join(self.agents)}")
        moves = [ACTIONS[int(actions[name])] for name in self.agents]
        broken = self._breaks_a_rule(moves)
        self._plan = tuple((*path, path_of(path[-1], [move])[-1]) for path, move in zip(self._plan, moves, strict=True))
        steps = len(self._plan[0]) - 1
        arrived = not broken and all(path[-1] == agent.goal for path, agent in zip(self._plan, self.problem.agents, strict=True))
        cut_off = not broken and not arrived and steps >= self.max_steps
        before, self._costs = self._costs, [self.max_steps if broken or cut_off else cost for cost in self._costs_after(steps)]
        verdict: Verdict | None = verify_plan(self.problem, self._plan) if broken or arrived or cut_off else None
        names = self.agents
        result = (
            self._observations(),
            {name: float(old - new) for name, old, new in zip(names, before, self._costs, strict=True)},
            dict.fromkeys(names, broken or arrived),
            dict.fromkeys(names, cut_off),
            {name: {"verdict": verdict} if verdict else {} for name in names},
        )
        if verdict:
            self.agents = []
        return result

    def _breaks_a_rule(self, moves: list[Move]) -> bool:
        """What the verifier says of this step alone: the agents start where they are now."""
        agents = tuple(Agent(start=path[-1], goal=agent.goal) for path, agent in zip(self._plan, self.problem.agents, strict=True))
        step = tuple(path_of(agent.start, [move]) for agent, move in zip(agents, moves, strict=True))
        verdict = verify_plan(self.problem.model_copy(update={"agents": agents}), step)
        return verdict.category not in (None, FailureCategory.GOAL_NOT_REACHED)

    def _costs_after(self, steps: int) -> list[int]:
        """Per agent the step of its arrival if it rests on its goal, else all steps so far."""
        costs = []
        for cost, path, agent in zip(self._costs, self._plan, self.problem.agents, strict=True):
            rests = path[-1] == path[-2] == agent.goal
            costs.append(cost if rests else steps)
        return costs

    def _observations(self) -> Values:
        size, count = self.problem.size, len(self.possible_agents)
        holes = np.ones((self._side, self._side), np.uint8)
        holes[:size, :size] = 0
        for cell in self.problem.holes:
            holes[cell] = 1
        pairs = [np.stack([self._plane(path[-1]), self._plane(agent.goal)]) for path, agent in zip(self._plan, self.problem.agents, strict=True)]
        return {name: np.concatenate([holes[None], *(pairs[(i + k) % count] for k in range(count))]) for i, name in enumerate(self.possible_agents)}

    def _plane(self, cell: Cell) -> np.ndarray:
        """1 at a cell; empty for one off the board."""
        plane = np.zeros((self._side, self._side), np.uint8)
        if min(cell) >= 0 and max(cell) < self.problem.size:
            plane[cell] = 1
        return plane
