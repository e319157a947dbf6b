import re
from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest
from scipy.stats import chisquare

from envgen.errors import ConfigError, EnvwrightError, SamplingError
from envgen.mapf.config import BoardsConfig, SizeConfig
from envgen.mapf.problem import Instance, identities, identity
from envgen.mapf.quota import Quota, quotas
from envgen.mapf.sampler import SamplingReport, draw_boards, sample
from envgen.mapf.solver.columns import pack_cells
from envgen.mapf.solver.solve import solve, solve_boards
from envgen.mapf.verifier import verify_plan
from envgen.seeds import generator, seed_integer


def config_of(**sizes: tuple[float, float, float]) -> BoardsConfig:
    """`s4=(data_ratio, hole_ratio, wait_ratio)` and so on."""
    keys = ("data_ratio", "hole_ratio", "wait_ratio")
    return BoardsConfig(
        sizes={
            int(name[1:]): SizeConfig(**dict(zip(keys, ratios, strict=True)))
            for name, ratios in sizes.items()
        }
    )


MIXED = config_of(s3=(0.2, 0.25, 0.4), s4=(0.5, 0.2, 0.5), s6=(0.3, 0.2, 0.25))
NO_WAITS_LEFT = config_of(s3=(1, 0, 1))
"""An open 3x3 board with two agents hardly ever needs a wait."""


@pytest.fixture(scope="module")
def mixed() -> tuple[list[Instance], SamplingReport]:
    return sample(MIXED, 100, seed=7)


def test_counts_are_exact_per_size_and_wait_class(mixed: tuple[list[Instance], SamplingReport]):
    instances, report = mixed
    sizes = [instance.problem.size for instance in instances]
    assert sizes == [3] * 20 + [4] * 50 + [6] * 30
    waits = {
        size: sum(i.solution.wait_required for i in instances if i.problem.size == size) for size in (3, 4, 6)
    }
    assert waits == {3: 8, 4: 25, 6: 8}
    for size, achieved in report.sizes.items():
        assert achieved.instances == sizes.count(size)
        assert achieved.wait_instances == waits[size]
        assert achieved.requested_wait_ratio == MIXED.sizes[size].wait_ratio
        assert achieved.achieved_wait_ratio == waits[size] / sizes.count(size)
        assert achieved.draws >= achieved.instances


def test_hole_counts_are_the_ratio_rounded_down(mixed: tuple[list[Instance], SamplingReport]):
    instances, report = mixed
    assert {(i.problem.size, len(i.problem.holes)) for i in instances} == {(3, 2), (4, 3), (6, 7)}
    assert {size: achieved.holes for size, achieved in report.sizes.items()} == {3: 2, 4: 3, 6: 7}


@pytest.mark.parametrize(
    ("size", "ratio", "holes"),
    [(3, 0.1, 0), (3, 1 / 3, 3), (5, 0.28, 7), (9, 7 / 81, 7), (10, 0.47, 47), (10, 0.5, 50), (4, 0.5, 8)],
)
def test_rounding_down_is_not_fooled_by_binary_fractions(size: int, ratio: float, holes: int):
    config = BoardsConfig(sizes={size: SizeConfig(data_ratio=1, hole_ratio=ratio, wait_ratio=0)})
    assert quotas(config, 10, 2)[0].holes == holes


def test_every_label_and_cost_is_what_the_solver_says(mixed: tuple[list[Instance], SamplingReport]):
    for instance in mixed[0]:
        assert solve(instance.problem) == instance.solution
        assert verify_plan(instance.problem, instance.solution.plan, instance.solution.sum_of_costs).optimal


def test_every_agent_has_to_move(mixed: tuple[list[Instance], SamplingReport]):
    assert all(agent.start != agent.goal for instance in mixed[0] for agent in instance.problem.agents)


def test_instances_are_distinct_and_named_by_their_identity(mixed: tuple[list[Instance], SamplingReport]):
    ids = [instance.problem.id for instance in mixed[0]]
    assert len(set(ids)) == len(ids) == 100
    assert ids == [identity(instance.problem) for instance in mixed[0]]


@pytest.mark.parametrize("agents", [2, 3, 5])
def test_the_number_of_agents_is_what_was_asked_for(agents: int):
    instances, _ = sample(config_of(s5=(1, 0.1, 0.3)), 10, agents=agents, seed=1)
    assert [instance.problem.num_agents for instance in instances] == [agents] * 10
    assert sum(instance.solution.wait_required for instance in instances) == 3


def test_held_out_identities_never_appear(mixed: tuple[list[Instance], SamplingReport]):
    held_out = frozenset(instance.problem.id for instance in mixed[0][::2])
    instances, _ = sample(MIXED, 100, seed=7, held_out=held_out)
    ids = {instance.problem.id for instance in instances}
    assert len(ids) == 100
    assert not ids & held_out
    assert ids & {instance.problem.id for instance in mixed[0][1::2]}


def test_the_same_seed_gives_the_same_instances_and_report(mixed: tuple[list[Instance], SamplingReport]):
    assert sample(MIXED, 100, seed=7) == mixed


def test_seeds_stages_and_purposes_draw_different_boards():
    config = config_of(s6=(1, 0.2, 0.2))
    draws = [
        sample(config, 20, seed=0)[0],
        sample(config, 20, seed=1)[0],
        sample(config, 20, seed=0, stage=1)[0],
        sample(config, 20, seed=0, purpose="validation")[0],
    ]
    ids = [instance.problem.id for instances in draws for instance in instances]
    assert len(set(ids)) == 80


def test_one_map_size_draws_the_same_boards_whatever_else_is_in_the_config():
    alone, _ = sample(config_of(s5=(1, 0.2, 0.5)), 10, seed=3)
    together, _ = sample(config_of(s4=(0.5, 0.2, 0), s5=(0.5, 0.2, 0.5)), 20, seed=3)
    assert [i for i in together if i.problem.size == 5] == alone


def test_a_size_without_share_is_not_drawn():
    instances, report = sample(config_of(s3=(0, 0.5, 1), s4=(1, 0, 0)), 5, agents=5, seed=0)
    assert {instance.problem.size for instance in instances} == {4}
    assert (report.sizes[3].instances, report.sizes[3].draws) == (0, 0)


def test_progress_is_told_once_per_map_size():
    said: list[str] = []
    sample(MIXED, 10, seed=0, progress=said.append)
    assert [line.split(":")[0] for line in said] == ["3x3", "4x4", "6x6"]


@pytest.mark.parametrize("agents", [-1, 0, 1, 6, 10**9])
def test_a_number_of_agents_out_of_range_is_a_config_error(agents: int):
    with pytest.raises(ConfigError, match=f"agents: {agents} .*2 to 5"):
        sample(MIXED, 10, agents=agents, seed=0)


@pytest.mark.parametrize("count", [0, -1, -(10**9)])
def test_a_count_below_one_is_a_config_error(count: int):
    with pytest.raises(ConfigError, match=f"count: {count} .*at least 1"):
        sample(MIXED, count, seed=0)


def test_too_many_holes_for_the_agents_are_refused_with_a_hole_ratio_that_works():
    config = config_of(s3=(1, 0.5, 0.2))
    with pytest.raises(
        SamplingError, match=r"map size 3: hole_ratio 0\.5 leaves 5 free cells for 5 agents"
    ) as caught:
        sample(config, 5, agents=5, seed=0)
    remedy = float(re.search(r"hole_ratio at most (\S+),", str(caught.value))[1])
    assert quotas(config_of(s3=(1, remedy, 0.2)), 5, 5)
    assert isinstance(caught.value, EnvwrightError)


def test_a_class_with_too_few_boards_is_refused_with_a_count_that_works():
    with pytest.raises(
        SamplingError,
        match=(
            r"map size 3 with 2 agents and hole_ratio 0: there are \d of 30 distinct boards that need a wait"
        ),
    ) as caught:
        sample(NO_WAITS_LEFT, 30, seed=0)
    most = int(re.search(r"ask for at most (\d+) of this size", str(caught.value))[1])
    instances, _ = sample(NO_WAITS_LEFT, most, seed=0)
    assert len(instances) == most
    assert all(instance.solution.wait_required for instance in instances)


def test_the_count_named_in_a_refusal_keeps_the_wait_ratio_that_was_asked_for():
    config = config_of(s3=(1, 0, 0.25))
    with pytest.raises(SamplingError, match=r"lower wait_ratio to 0\.0") as caught:
        sample(config, 80, seed=0)
    most = int(re.search(r"ask for at most (\d+) of this size", str(caught.value))[1])
    assert len(sample(config, most, seed=0)[0]) == most
    lower = float(re.search(r"lower wait_ratio to (\S+);", str(caught.value))[1])
    assert len(sample(config_of(s3=(1, 0, lower)), 80, seed=0)[0]) == 80


def test_holding_out_every_board_of_a_class_leaves_too_few():
    few, _ = sample(NO_WAITS_LEFT, 3, seed=0)
    with pytest.raises(SamplingError, match="map size 3"):
        sample(NO_WAITS_LEFT, 3, seed=0, held_out=frozenset(i.problem.id for i in few))


def test_generators_depend_on_the_whole_path_and_on_nothing_else():
    paths = [
        (0,),
        (1,),
        (0, 0),
        (0, 1),
        (0, "train"),
        (0, "validation"),
        (0, "train", 3),
        (0, 3, "train"),
        (0, "train", 3, 0),
    ]
    first = [generator(*path).integers(2**63) for path in paths]
    assert len(set(first)) == len(paths)
    assert first == [generator(*path).integers(2**63) for path in paths]


def test_integer_seeds_fit_in_32_bits_and_never_change():
    assert seed_integer(0, 1, "train") == seed_integer(0, 1, "train") != seed_integer(0, 1, "eval")
    assert all(0 <= seed_integer(seed, "x") < 2**32 for seed in range(100))


def test_draws_are_uniform_over_all_labelled_boards_of_a_class():
    """3x3, two agents, two holes: how often each distinct board is drawn, against how many labelled forms it
    has."""
    labelled = [
        (holes, starts, goals)
        for holes in combinations(range(9), 2)
        for starts in permutations([cell for cell in range(9) if cell not in holes], 2)
        for goals in permutations([cell for cell in range(9) if cell not in holes], 2)
        if starts[0] != goals[0] and starts[1] != goals[1]
    ]
    holes, starts, goals = (np.array(column) for column in zip(*labelled, strict=True))
    solved = solve_boards(pack_cells(3, holes, starts, goals))
    drawn = draw_boards(
        Quota(size=3, agents=2, hole_ratio=2 / 9, without_wait=0, with_wait=0), 0, 0, "uniform", 0, 25_600
    )
    for waiting in (False, True):
        which = (solved.status > 0) & ((solved.waits > 0) == waiting)
        forms = Counter(identities(3, holes[which], starts[which], goals[which]))
        chosen = (drawn.answers.status > 0) & ((drawn.answers.waits > 0) == waiting)
        seen = Counter(identities(3, drawn.cells[chosen, :2], drawn.starts[chosen], drawn.goals[chosen]))
        assert seen.keys() <= forms.keys()
        names = sorted(forms)
        expected = np.array([forms[name] for name in names]) * seen.total() / forms.total()
        assert chisquare([seen[name] for name in names], expected).pvalue > 0.01
