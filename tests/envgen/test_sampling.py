from collections import Counter

import pytest
from support.boards import boards_config

from envgen.config import EnvConfig
from envgen.environment import Environment, Source
from envgen.errors import SamplingError, ShortageError
from envgen.registry import EnvironmentSpec
from envgen.rows import instance_of, instance_row, model_of, model_row
from envgen.sampling import attainable, sample
from envgen.sums import CARRIES, DIGITS


def sums_of(terms: dict[int, tuple[float, float, float]]) -> EnvConfig:
    """Number of terms -> (data_ratio, digits, carry_ratio), as an environment config."""
    names = ("data_ratio", "digits", "carry_ratio")
    parts = {str(count): dict(zip(names, values, strict=True)) for count, values in terms.items()}
    return EnvConfig.model_validate({"terms": parts})


def two_terms_short(digits: float, share: float) -> EnvConfig:
    """Sums of two terms with few digits, of which there are few, beside sums of four with three digits."""
    return sums_of({2: (share, digits, 0.5), 3: (0, 3, 0.5), 4: (1 - share, 3, 0.5)})


MIXED = boards_config({3: (0.2, 0.25, 0.4), 4: (0.5, 0.2, 0.5), 6: (0.3, 0.2, 0.25)})
SUMS = sums_of({2: (0.4, 2.5, 0.5), 3: (0.35, 2.5, 0.5), 4: (0.25, 2.5, 0.5)})
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
    wanted = boards_config({3: (0.5, 0, 0.8), 4: (0.25, 0.2, 0.3), 5: (0.25, 0.2, 0.3)})
    config, notes = attainable(BOARDS_ENVIRONMENT, wanted, 60, Source(2))
    [note] = notes
    assert note.startswith("3x3 has too few distinct instances: data_ratio 0.5 -> ")
    assert note.endswith("of the data moved to 5x5")
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


def test_a_knob_of_a_short_stratum_stays_within_its_range(monkeypatch: pytest.MonkeyPatch):
    environment = SUMS_ENVIRONMENT
    narrow = {"knobs": (DIGITS, CARRIES.model_copy(update={"high": 0.5}))}
    strata = tuple(stratum.model_copy(update=narrow) for stratum in environment.space.strata)
    monkeypatch.setattr(environment, "space", environment.space.model_copy(update={"strata": strata}))
    config, notes = attainable(environment, two_terms_short(1, 0.8), 100, Source(2))
    assert notes
    environment.space.check(config)
    assert len(sample(environment, config, 100, Source(2))[0]) == 100


@pytest.mark.parametrize(
    ("environment", "config"),
    [(BOARDS_ENVIRONMENT, boards_config({3: (1, 0, 1)})), (SUMS_ENVIRONMENT, sums_of({2: (1, 1, 0)}))],
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
    instances, _ = sample(
        SUMS_ENVIRONMENT, sums_of({2: (0.4, 6, 0.5), 3: (0.3, 6, 0.5), 4: (0.3, 6, 0.5)}), 60, Source(0)
    )
    assert len(SUMS_ENVIRONMENT.longest_prompt("plain")) == max(len(one.question) for one in instances)
