import numpy as np

from envgen.space import Knob, Space, Stratum
from tasks.bootstrap import whole_or_part

DEEP = Knob(name="deep", word="depth", low=1, high=9, default=1, step=1, description="how deep")
SPACE = Space(
    strata=(
        Stratum(name="maze", label="mazes", knobs=(DEEP,)),
        *(Stratum(name=name, label=f"{name}s") for name in ("coin", "card", "dial")),
    ),
    noun="riddle",
    task="solves riddles",
    guideline="",
    categories=("no_answer", "wrong"),
)
BARE = SPACE.model_validate({**dict(SPACE), "strata": SPACE.strata[1:]})


def test_design_questions_are_of_a_space_or_of_all_its_knobs_and_some_other_strata():
    rng = np.random.default_rng(0)
    for space in (SPACE, BARE):
        drawn = [whole_or_part(space, rng) for _ in range(200)]
        assert 80 < sum(one == space for one in drawn) < 150
        for one in drawn:
            assert one.names
            assert [stratum for stratum in space.strata if stratum in one.strata] == list(one.strata)
            assert one.knobs == space.knobs
            assert one.noun == space.noun
        assert {name for one in drawn if one != space for name in one.names} == set(space.names)
