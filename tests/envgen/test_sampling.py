from collections import Counter

import pytest

from envgen.config import EnvConfig
from envgen.environment import Environment, Source
from envgen.errors import SamplingError, ShortageError
from envgen.registry import EnvironmentSpec
from envgen.rows import instance_of, instance_row, model_of, model_row
from envgen.sampling import attainable, sample
from envgen.sums import CARRIES, DIGITS


def boards_of(**sizes: tuple[float, float, float]) -> EnvConfig:
    """`s4=(data_ratio, hole_ratio, wait_ratio)` and so on."""
    keys = ("data_ratio", "hole_ratio", "wait_ratio")
    return EnvConfig.model_validate(
        {"sizes": {name[1:]: dict(zip(keys, ratios, strict=True)) for name, ratios in sizes.items()}}
    )


def sums_of(digits: float, carries: float, *shares: float) -> EnvConfig:
    parts = {
        str(2 + index): {"data_ratio": share, "digits": digits, "carry_ratio": carries}
        for index, share in enumerate(shares)
    }
    return EnvConfig.model_validate({"terms": parts})


def two_terms_short(digits: float, share: float) -> EnvConfig:
    """Sums of two terms with few digits, of which there are few, beside sums of four with three digits."""
    return EnvConfig.model_validate(
        {
            "terms": {
                "2": {"data_ratio": share, "digits": digits, "carry_ratio": 0.5},
                "3": {"data_ratio": 0, "digits": 3, "carry_ratio": 0.5},
                "4": {"data_ratio": 1 - share, "digits": 3, "carry_ratio": 0.5},
            }
        }
    )


MIXED = boards_of(s3=(0.2, 0.25, 0.4), s4=(0.5, 0.2, 0.5), s6=(0.3, 0.2, 0.25))
SUMS = sums_of(2.5, 0.5, 0.4, 0.35, 0.25)
BOARDS_ENVIRONMENT, SUMS_ENVIRONMENT = EnvironmentSpec().load(), EnvironmentSpec(name="sums").load()
BOTH = pytest.mark.parametrize(
    ("environment", "config"), [(BOARDS_ENVIRONMENT, MIXED), (SUMS_ENVIRONMENT, SUMS)]
)


@BOTH
def test_counts_are_exact_and_nothing_is_drawn_twice_or_held_out(environment: Environment, config: EnvConfig):
    first, _ = sample(environment, config, 60, Source(1))
    held = frozenset(one.id for one in first)
    instances, _ = sample(environment, config, 60, Source(1), held)
    assert Counter(one.stratum for one in instances) == config.counts(60)
    ids = {one.id for one in instances}
    assert len(ids) == 60
    assert not ids & held
    for knob in environment.space.asked:
        assert knob.label is not None
        for name, count in config.counts(60).items():
            labelled = sum(knob.label.name in one.labels for one in instances if one.stratum == name)
            assert labelled == pytest.approx(config.strata[name][knob.name] * count, abs=0.51)


@BOTH
def test_a_draw_depends_on_seed_stage_and_purpose(environment: Environment, config: EnvConfig):
    sources = [Source(1), Source(2), Source(1, 1), Source(1, purpose="pilot")]
    drawn = [[one.id for one in sample(environment, config, 40, source)[0]] for source in sources]
    assert drawn[0] == [one.id for one in sample(environment, config, 40, Source(1))[0]]
    assert len({tuple(ids) for ids in drawn}) == 4


@BOTH
def test_the_reference_answer_is_valid_and_rows_read_back(environment: Environment, config: EnvConfig):
    instances, _ = sample(environment, config, 30, Source(3))
    verdicts = environment.judge(instances, [environment.reference(one) for one in instances])
    assert all(verdict.valid for verdict in verdicts)
    assert not any(verdict.valid for verdict in environment.judge(instances, ["banana"] * 30))
    for one, verdict in zip(instances, verdicts, strict=True):
        row = instance_row(environment, one, environment.styles[0])
        assert row["prompt"] == environment.prompt(one, environment.styles[0])
        assert instance_of(environment, row, "here") == one
        assert model_of(environment.verdict_type, model_row(verdict), "here") == verdict


@BOTH
def test_an_attainable_config_is_left_alone(environment: Environment, config: EnvConfig):
    assert attainable(environment, config, 60, Source(7)) == (config, [])


def test_a_config_with_a_short_stratum_becomes_one_that_can_be_drawn():
    wanted = boards_of(s3=(0.5, 0, 0.8), s4=(0.25, 0.2, 0.3), s5=(0.25, 0.2, 0.3))
    config, notes = attainable(BOARDS_ENVIRONMENT, wanted, 60, Source(2))
    assert len(notes) == 1
    assert notes[0].startswith("3x3 has too few distinct instances: data_ratio 0.5 -> ")
    assert notes[0].endswith("of the data moved to 5x5")
    instances, report = sample(BOARDS_ENVIRONMENT, config, 60, Source(2))
    assert len(instances) == 60
    assert 0 < report["sizes"]["3"]["instances"] < 30
    assert config.strata["4"] == wanted.strata["4"]
    assert config.strata["5"].data_ratio > wanted.strata["5"].data_ratio
    assert {name: part["hole_ratio"] for name, part in config.strata.items()} == {"3": 0, "4": 0.2, "5": 0.2}


def test_a_short_stratum_keeps_all_of_its_instances_with_a_label_and_without():
    config, _ = attainable(SUMS_ENVIRONMENT, two_terms_short(1, 0.6), 400, Source(2))
    assert round(config.strata["2"].data_ratio * 400) == 45, "pairs of numbers from 1 to 9"
    mixed, _ = attainable(SUMS_ENVIRONMENT, two_terms_short(1.5, 0.6), 400, Source(2))
    assert round(mixed.strata["2"].data_ratio * 400) >= 90, "half of them have two digits"
    assert len(sample(SUMS_ENVIRONMENT, mixed, 400, Source(2))[0]) == 400


def test_a_knob_of_a_short_stratum_stays_within_its_range():
    environment = EnvironmentSpec(name="sums").load()
    narrow = {"knobs": (DIGITS, CARRIES.model_copy(update={"high": 0.5}))}
    strata = tuple(stratum.model_copy(update=narrow) for stratum in environment.space.strata)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "space", environment.space.model_copy(update={"strata": strata}))
        config, notes = attainable(environment, two_terms_short(1, 0.8), 100, Source(2))
        assert notes
        environment.space.check(config)
        assert len(sample(environment, config, 100, Source(2))[0]) == 100


@pytest.mark.parametrize(
    ("environment", "config"),
    [(BOARDS_ENVIRONMENT, boards_of(s3=(1, 0, 1))), (SUMS_ENVIRONMENT, sums_of(1, 0, 1))],
)
def test_a_config_whose_strata_are_all_short_cannot_be_made_attainable(
    environment: Environment, config: EnvConfig
):
    with pytest.raises(SamplingError, match=r"every .* holds too few distinct instances; ask for fewer"):
        attainable(environment, config, 200, Source(0))
    with pytest.raises(ShortageError) as caught:
        sample(environment, config, 200, Source(0))
    assert 0 < len(caught.value.instances) < 200


def test_no_prompt_of_a_plain_environment_is_longer_than_the_longest():
    instances, _ = sample(SUMS_ENVIRONMENT, sums_of(6, 0.5, 0.4, 0.3, 0.3), 60, Source(0))
    assert len(SUMS_ENVIRONMENT.longest_prompt("plain")) == max(len(one.question) for one in instances)
