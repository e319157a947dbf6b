import pytest
from contexts import breakdown as of_sizes
from contexts import counts, env_config, repeatable
from hypothesis import given
from hypothesis import strategies as st

from engineer.behaviour import EvidenceShares, budgets, evidence_shares, proposal_behaviour
from envgen.breakdown import Breakdown
from envgen.config import EnvConfig

EVEN = env_config({3: (0.25, 0.2, 0.5), 4: (0.25, 0.3, 0.5), 5: (0.25, 0.3, 0.25), 6: (0.25, 0.4, 0.0)})
MOVED = env_config({3: (0.10, 0.2, 0.5), 4: (0.45, 0.3, 0.5), 5: (0.25, 0.31, 0.27), 6: (0.20, 0.2, 0.5)})


def breakdown(valid: dict[int, int], n: int = 100) -> Breakdown:
    return of_sizes({size: counts(n, count, 0) for size, count in valid.items()})


SEEN = breakdown({3: 100, 4: 50, 5: 20, 6: 0})


def shares(of: dict[int, float]) -> EnvConfig:
    return env_config({size: (share, 0.3, 0.5) for size, share in of.items()})


def values(model: EvidenceShares) -> dict[str, float]:
    return model.model_dump()


def test_data_that_moves_is_half_of_the_differences_of_all_shares():
    assert proposal_behaviour(EVEN, MOVED, SEEN).moved == pytest.approx(0.20)
    assert proposal_behaviour(EVEN, EVEN, SEEN).moved == 0
    assert proposal_behaviour(shares({3: 1.0}), shares({4: 1.0}), SEEN).moved == 1


def test_budgets_follow_each_map_size_and_a_size_not_named_has_none():
    assert budgets([shares({5: 0.75, 3: 0.25}), shares({3: 0.5, 4: 0.5})]) == {
        "5": (0.75, 0.0),
        "3": (0.25, 0.5),
        "4": (0.0, 0.5),
    }
    assert list(budgets([shares({3: 0.25, 5: 0.75}), shares({4: 1})])) == ["3", "5", "4"]


def test_data_on_unsolved_and_solved_sizes_is_counted_but_not_on_those_that_were_not_evaluated():
    config = shares({3: 0.4, 4: 0.3, 5: 0.2, 6: 0.1})
    assert values(evidence_shares(config, SEEN)) == pytest.approx({"unsolved": 0.1, "solved": 0.4})
    neither = {"unsolved": 0.0, "solved": 0.0}
    assert values(evidence_shares(config, breakdown({3: 50, 4: 50}))) == neither
    no_answers = of_sizes({3: counts(0, 0, 0), 4: counts(100, 50, 0)})
    assert values(evidence_shares(shares({3: 0.4, 4: 0.6}), no_answers)) == neither


@pytest.mark.parametrize(
    ("valid", "unsolved", "solved"), [(4, 1.0, 0.0), (5, 0.0, 0.0), (95, 0.0, 0.0), (96, 0.0, 1.0)]
)
def test_exactly_five_and_ninety_five_percent_are_neither_unsolved_nor_solved(
    valid: int, unsolved: float, solved: float
):
    assert values(evidence_shares(shares({3: 1.0}), breakdown({3: valid}))) == {
        "unsolved": unsolved,
        "solved": solved,
    }


@st.composite
def configs(draw: st.DrawFn) -> EnvConfig:
    sizes = draw(st.lists(st.integers(3, 10), min_size=1, unique=True))
    weights = [draw(st.integers(0, 20)) for _ in sizes[1:]] + [draw(st.integers(1, 20))]
    knobs = [(draw(st.floats(0, 0.5)), draw(st.floats(0, 1))) for _ in sizes]
    parts = zip(sizes, weights, knobs, strict=True)
    return env_config({size: (weight / sum(weights), *values) for size, weight, values in parts})


answered = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: counts(max(pair), min(pair), 0))
evidence = st.dictionaries(st.integers(3, 10), answered, min_size=1).map(of_sizes)


@repeatable
@given(configs(), configs(), evidence)
def test_every_measure_stays_in_its_range(config: EnvConfig, proposed: EnvConfig, seen: Breakdown):
    behaviour = proposal_behaviour(config, proposed, seen)  # the model refuses values out of range
    for part in (behaviour.shares, behaviour.proposed_shares):
        assert all(0 <= share <= 1 for share in values(part).values())
        assert sum(values(part).values()) <= 1 + 1e-9
    assert proposal_behaviour(config, config, seen).moved == 0
