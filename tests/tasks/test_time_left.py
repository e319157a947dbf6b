"""The time that a run and a comparison say they still take."""

from pathlib import Path

from factories import published

from infra.runs.files import MANIFEST, RESULTS
from infra.runs.progress import seconds_left
from infra.runs.publishing import results_with
from tasks.artifacts import progress_text
from tasks.run import Pace

STEPS = (
    {"generate": 1.0, "train": 60.0, "evaluate": 20.0, "engineer": 3.0},
    {"generate": 1.0, "train": 80.0, "evaluate": 22.0, "engineer": 5.0},
)


def test_a_run_is_as_fast_as_its_stages_that_are_done(tmp_path: Path):
    run = published(tmp_path / "mine", 2, 5)
    for number, seconds in enumerate(STEPS):
        run.write(MANIFEST, run.read(MANIFEST, number) | {"seconds": seconds}, number)
        run.write(RESULTS, results_with(run, number))
    assert seconds_left(run, 0) is None, "nothing is known before the first stage"
    assert seconds_left(run, 1) == 4 * 84
    assert seconds_left(run, 2) == 3 * (84 + 108) / 2


def test_a_training_says_how_long_it_still_takes():
    entry = {"step": 30, "steps": 90, "steps_here": 20, "elapsed": 40.0, "tokens_here": 4000, "reward": 0.5}
    entry |= {"rewards/valid/mean": 0.6, "frac_reward_zero_std": 0.25}
    assert progress_text(entry).endswith("100 tokens/s, about 2\u00a0min of this training left")


def test_like_pieces_of_work_take_as_long_as_those_before_them():
    one_at_a_time = Pace(3)
    assert one_at_a_time.over(60.0) == "1 of 3, about 2\u00a0min left"
    assert one_at_a_time.over(180.0) == "2 of 3, about 2\u00a0min left"
    assert one_at_a_time.over(60.0) == "3 of 3"
    two_at_a_time = Pace(5, at_a_time=2)
    assert two_at_a_time.over(None) == "1 of 5", "a failure says nothing of the others"
    assert two_at_a_time.over(600.0) == "2 of 5, about 15\u00a0min left"
    assert Pace(6, at_a_time=None).over(60.0) == "1 of 6", "the workers decide how many run at a time"
