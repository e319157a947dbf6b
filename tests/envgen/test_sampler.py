import re
from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest
from scipy.stats import chisquare
from support.boards import boards_config, sample_boards, solve

from envgen.environment import Source
from envgen.errors import SamplingError, ShortageError
from envgen.mapf import sampler
from envgen.mapf.problem import Instance, identity
from envgen.mapf.sampler import draw_boards, draw_size, hole_count
from envgen.mapf.solver.columns import Answers, Boards, pack_cells, problem_of
from envgen.mapf.solver.solve import solve_boards
from envgen.mapf.verifier import verify_plan
from envgen.registry import EnvironmentSpec
from envgen.sampling import sample
from envgen.seeds import generator, seed_integer

MIXED = boards_config({3: (0.2, 0.25, 0.4), 4: (0.5, 0.2, 0.5), 6: (0.3, 0.2, 0.25)})
BOARDS = EnvironmentSpec().load()
Sample = tuple[list[Instance], dict]


@pytest.fixture(scope="module")
def mixed() -> Sample:
    return sample(BOARDS, MIXED, 100, Source(7))


def test_counts_are_exact_per_size_and_wait_class(mixed: Sample):
    instances, report = mixed
    sizes = [instance.problem.size for instance in instances]
    assert sizes == [3] * 20 + [4] * 50 + [6] * 30
    waits = Counter(i.problem.size for i in instances if i.solution.wait_required)
    assert waits == {3: 8, 4: 25, 6: 8}
    assert {(i.problem.size, len(i.problem.holes)) for i in instances} == {(3, 2), (4, 3), (6, 7)}
    for name, achieved in report["sizes"].items():
        size = int(name)
        assert achieved["instances"] == sizes.count(size)
        assert (achieved["wait_instances"], achieved["undecided"]) == (waits[size], 0)
        assert achieved["draws"] >= achieved["instances"]


def test_rounding_down_is_not_fooled_by_binary_fractions():
    ratios = {(3, 0.1): 0, (3, 1 / 3): 3, (5, 0.28): 7, (9, 7 / 81): 7, (10, 0.47): 47, (4, 0.5): 8}
    assert {key: hole_count(*key, 10, 2) for key in ratios} == ratios


def test_every_label_and_cost_is_what_the_solver_says(mixed: Sample):
    for instance in mixed[0]:
        assert solve(instance.problem) == instance.solution
        assert verify_plan(instance.problem, instance.solution.plan, instance.solution.sum_of_costs).optimal
        assert all(agent.start != agent.goal for agent in instance.problem.agents)
        assert instance.problem.id == identity(instance.problem)


def test_one_map_size_draws_the_same_boards_whatever_else_is_in_the_config():
    alone = sample_boards(boards_config({5: (1, 0.2, 0.5)}), 10, seed=3)
    together = sample_boards(boards_config({4: (0.5, 0.2, 0), 5: (0.5, 0.2, 0.5)}), 20, seed=3)
    assert [i for i in together if i.problem.size == 5] == alone


def test_a_size_without_share_is_not_drawn():
    environment = EnvironmentSpec(options={"agents": 5}).load()
    lines: list[str] = []
    config = boards_config({3: (0, 0.5, 1), 4: (1, 0, 0)})
    instances, report = sample(environment, config, 5, Source(0), progress=lines.append)
    assert {(instance.problem.size, instance.problem.num_agents) for instance in instances} == {(4, 5)}
    assert (report["sizes"]["3"]["instances"], report["sizes"]["3"]["draws"]) == (0, 0)
    assert [line.split(":")[0] for line in lines] == ["4x4"]


def test_too_many_holes_for_the_agents_are_refused_with_a_hole_ratio_that_works():
    message = r"map size 3: hole_ratio 0\.5 leaves 5 free cells for 5 agents"
    with pytest.raises(SamplingError, match=message) as caught:
        hole_count(3, 0.5, 5, 5)
    remedy = re.search(r"hole_ratio at most (\S+),", str(caught.value))
    assert remedy
    assert hole_count(3, float(remedy[1]), 5, 5)


def test_a_class_with_too_few_boards_is_refused_with_those_that_it_has(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sampler, "FRUITLESS_DRAWS", 20_000)
    waits = {"hole_ratio": 0.0, "wait_ratio": 1.0}  # which open boards hardly ever need
    message = r"map size 3 with 2 agents and 0 holes: only \d of 30 distinct boards that need a wait after"
    with pytest.raises(ShortageError, match=message) as caught:
        draw_size(3, waits, 30, 2, Source(0), frozenset())
    few = caught.value.instances
    assert 0 < len(few) < 10
    assert all(instance.solution.wait_required for instance in few)
    assert draw_size(3, waits, len(few), 2, Source(0), frozenset()).instances == few
    with pytest.raises(ShortageError):
        draw_size(3, waits, 1, 2, Source(0), frozenset(instance.id for instance in few))


def test_a_board_that_the_solver_cannot_decide_is_drawn_again_and_counted(monkeypatch: pytest.MonkeyPatch):
    def undecided(boards):
        answers = solve_boards(boards)
        answers.status[::3] = -4
        return answers

    knobs = {"hole_ratio": 0.2, "wait_ratio": 0.5}
    monkeypatch.setattr(sampler, "solve_boards", undecided)
    drawn = draw_size(4, knobs, 20, 2, Source(0), frozenset())
    assert len(drawn.instances) == 20
    assert drawn.report["undecided"] > 0


def test_generators_and_seeds_of_32_bits_depend_on_the_whole_path_and_on_nothing_else():
    paths = [(0,), (1,), (0, 0), (0, 1), (0, "train"), (0, "validation"), (0, "train", 3), (0, 3, "train")]
    for draw in (lambda *path: generator(*path).integers(2**63), seed_integer):
        first = [draw(*path) for path in paths]
        assert len(set(first)) == len(paths)
        assert first == [draw(*path) for path in paths]
    assert all(0 <= seed_integer(seed, "x") < 2**32 for seed in range(100))


def test_draws_are_uniform_over_all_labelled_boards_of_a_class():
    """3x3, two agents, five holes: how often each distinct board is drawn, against how many labelled forms it
    has."""
    labelled = [
        (holes, starts, goals)
        for holes in combinations(range(9), 5)
        for starts in permutations([cell for cell in range(9) if cell not in holes], 2)
        for goals in permutations([cell for cell in range(9) if cell not in holes], 2)
        if starts[0] != goals[0] and starts[1] != goals[1]
    ]
    holes, starts, goals = (np.array(column) for column in zip(*labelled, strict=True))
    every = pack_cells(3, holes, starts, goals)
    drawn = draw_boards(3, 2, 5, Source(0, purpose="uniform"), 0, 10_240)

    def identities(boards: Boards, answers: Answers, waiting: bool) -> Counter[str]:
        chosen = np.flatnonzero((answers.status > 0) & ((answers.waits > 0) == waiting)).tolist()
        return Counter(identity(problem_of(boards, index)) for index in chosen)

    for waiting in (False, True):
        forms = identities(every, solve_boards(every), waiting)
        seen = identities(drawn.boards, drawn.answers, waiting)
        assert seen.keys() <= forms.keys()
        names = sorted(forms)
        assert len(names) > 10
        expected = np.array([forms[name] for name in names]) * seen.total() / forms.total()
        assert chisquare([seen[name] for name in names], expected).pvalue > 0.01
