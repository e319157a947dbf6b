"""What a headroom measurement is made of, and what it concludes."""

import io

import numpy as np
import pytest
from rich.console import Console

from envgen.errors import ConfigError
from envgen.family import Source
from envgen.sampling import sample
from flows.commands.tables import headroom_table
from infra.analysis import gather as gathering
from infra.analysis.formats import narrow
from infra.analysis.gather import Finished
from infra.analysis.headroom.results import gather, markdown, verdict
from infra.analysis.headroom.spec import HeadroomSpec, load_headroom
from infra.config.preset import TUNING_SEED
from infra.runs.data import validation_instances

SPEC = {
    "name": "small",
    "preset": "micro",
    "stages": 2,
    "seeds": [1, 2],
    "configs": {
        "uniform": {},
        "waits": {"wait_ratio": {3: 0.5, 4: 1}},
        "large": {"data_ratio": {5: 1, 6: 3}, "hole_ratio": 0.2},
    },
}
INSTANCES = 400


def spec(**changes: object) -> HeadroomSpec:
    return HeadroomSpec.model_validate(SPEC | changes)


@pytest.mark.parametrize("name", ["tiny", "wide"])
def test_the_shipped_specs_load_and_all_their_curricula_are_legal(name: str):
    shipped = load_headroom(name)
    assert len(shipped.configs) >= 12
    for child in shipped.comparison.children:
        name, first = shipped.step((child.arm.label,), child.seed)
        whole = shipped.comparison.preset_of(child)
        assert (name, first) == (child.name, whole.model_copy(update={"stages": 1})), (
            "a chain begins as a constant arm"
        )
        _, preset = shipped.step((shipped.baseline, child.arm.label), child.seed)
        assert preset.engineer.options["configs"] == [whole.default_config.model_dump(mode="json")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny", "wide", "recipe", "puzzles"])
def test_a_stage_of_every_config_can_be_drawn(name: str):
    if name == "puzzles":
        pytest.importorskip("reasoning_gym")
    shipped = load_headroom(name)
    for preset in shipped.presets.values():
        held_out = frozenset(instance.id for instance in validation_instances(preset))
        instances, _ = sample(preset.task, preset.default_config, preset.instances, Source(31, 1), held_out)
        assert len(instances) == preset.instances


def test_an_edit_changes_what_it_names_and_nothing_else():
    plain, waits, large = (
        spec().presets[name].default_config.strata for name in ("uniform", "waits", "large")
    )
    assert [part["wait_ratio"] for part in waits.values()] == [0.5, 1, 0.25, 0.25]
    assert [part.data_ratio for part in waits.values()] == [part.data_ratio for part in plain.values()]
    assert [part.data_ratio for part in large.values()] == [0, 0, 0.25, 0.75]
    assert {part["hole_ratio"] for part in large.values()} == {0.2}


def test_the_knobs_of_an_edit_are_those_of_the_family():
    sums = spec(
        preset="micro-sums",
        configs={"plain": {}, "long": {"digits": {3: 4}}, "two": {"data_ratio": {2: 1}, "carry_ratio": 1}},
    )
    plain, long, two = (preset.default_config.strata for preset in sums.presets.values())
    assert [part["digits"] for part in long.values()] == [plain["2"]["digits"], 4]
    assert [(part.data_ratio, part["carry_ratio"]) for part in two.values()] == [(1, 1), (0, 1)]


def test_a_step_trains_its_chain_in_order():
    configs = {name: preset.default_config for name, preset in spec().presets.items()}
    name, preset = spec().step(("waits", "large", "uniform"), 2)
    assert name == "look-ahead-s2-waits.large.uniform"
    assert (preset.seed, preset.stages, preset.default_config) == (2, 3, configs["waits"])
    assert preset.engineer.options["configs"] == [
        configs[name].model_dump(mode="json") for name in ("large", "uniform")
    ]


def test_the_arms_of_a_sweep_differ_in_any_setting():
    sweep = load_headroom("recipe")
    plain, other = (sweep.presets[name] for name in ("as-shipped", "double-lr"))
    assert other.trl["learning_rate"] == 2 * plain.trl["learning_rate"]
    assert other.model_copy(update={"trl": plain.trl}) == plain
    assert plain.validation.seed == TUNING_SEED


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"configs": {"a": {}, "b": {"wait_ratio": 2}}}, "configs.b"),
        ({"configs": {"a": {}, "b": {"data_ratio": {3: 0}}}}, "every weight is 0"),
        (
            {"configs": {"a": {}, "b": {"wiat_ratio": 1}}},
            "configs.b: wiat_ratio: there is no such knob; known are hole_ratio, wait_ratio",
        ),
        (
            {"configs": {"a": {}, "b": {"wait_ratio": {7: 1}}}},
            "configs.b: wait_ratio.7: there is no such map size; known are 3, 4, 5, 6",
        ),
        (
            {"configs": {"a": {}, "b": {"data_ratio": {7: 1}}}},
            "configs.b: data_ratio.7: there is no such map size",
        ),
        ({"configs": {"a": {}, "b": {"wait_ratio": "much"}}}, "configs.b.wait_ratio"),
        ({"configs": {"a": {}, "look-ahead": {}}}, "look-ahead"),
        ({"seeds": [1, 1]}, "given twice"),
        (
            {"configs": {"a": {}, "b": {"settings": {"epochs": 2}}}},
            "configs.b.settings: the stages of a look-ahead share",
        ),
        (
            {"configs": {"a": {}, "b": {"settings": {"nothing": 2}}}, "look_ahead": False},
            "configs.b.settings: .*nothing",
        ),
    ],
)
def test_a_bad_spec_is_refused_by_name(changes: dict, named: str):
    with pytest.raises(ValueError, match=named):
        spec(**changes)


def test_an_unknown_spec_names_those_there_are():
    with pytest.raises(ConfigError, match="the shipped ones are puzzles, puzzles-recipe, recipe, tiny, wide"):
        load_headroom("nothing")


def ended(rates: tuple[float, ...], seed: int) -> Finished:
    """A curriculum whose base policy and stages solve these shares of the instances, the same ones first."""
    order = np.random.default_rng(seed).permutation(INSTANCES)
    outcomes = np.stack([np.isin(np.arange(INSTANCES), order[: round(rate * INSTANCES)]) for rate in rates])
    return Finished(
        outcomes={"valid": outcomes, "optimal": outcomes}, final=len(rates) - 2, training_seconds=60
    )


def summed_up(
    monkeypatch, tmp_path, ends: dict[str, float], chain: tuple[str, ...], ahead: float, **changes: object
):
    def found(directory, preset):
        seed = preset.seed
        rate = ahead if directory.name.startswith("look-ahead") else ends[directory.name.rpartition("-s")[0]]
        return ended((0.3, 0.35, rate), seed)

    monkeypatch.setattr(gathering, "finished", found)
    return gather(tmp_path, spec(**changes), {1: chain, 2: chain})


ENDS = {"uniform": 0.4, "waits": 0.7, "large": 0.5}


@pytest.mark.parametrize(
    ("ends", "chain", "ahead", "said"),
    [
        (ENDS, ("waits", "large"), 0.8, "is fit for a study"),
        (ENDS, ("waits", "waits"), 0.7, "chose the same config at every stage. The preset is not fit"),
        (dict.fromkeys(ENDS, 0.4), ("waits", "large"), 0.4, "is not fit for a study"),
    ],
)
def test_a_preset_is_fit_if_configs_that_change_gain_far_more_than_can_be_seen(
    monkeypatch, tmp_path, ends: dict[str, float], chain: tuple[str, ...], ahead: float, said: str
):
    results = summed_up(monkeypatch, tmp_path, ends, chain, ahead)
    assert [arm.label for arm in results.arms] == ["uniform", "waits", "large", "look-ahead"]
    assert results.best.label == max(ends, key=ends.__getitem__)
    assert results.instances == INSTANCES // 2
    assert results.fit == ("is fit" in said)
    assert said in verdict(results)
    assert "| `waits` |" in markdown(results)
    assert f"Look-ahead, seed 2: {', '.join(chain)}" in markdown(results)


def test_without_a_look_ahead_all_instances_are_reported_on(monkeypatch, tmp_path):
    results = summed_up(monkeypatch, tmp_path, ENDS, (), 0, look_ahead=False)
    assert results.instances == INSTANCES
    assert results.look_ahead is None
    assert results.arms[1].valid.value == pytest.approx(0.7)
    assert verdict(results).startswith("The best arm, `waits`, ends")


@pytest.mark.parametrize("width", [80, 200])
def test_the_table_of_a_terminal_is_whole(monkeypatch, tmp_path, width: int):
    results = summed_up(monkeypatch, tmp_path, ENDS, ("waits", "large"), 0.8)
    out = io.StringIO()
    Console(file=out, width=width).print(headroom_table(results))
    shown = [line.split() for line in out.getvalue().splitlines()]
    for arm in results.arms[1:]:
        gain = results.gain(arm)
        assert gain
        rate, change = narrow(arm.valid).split(), narrow(gain, gap="")
        assert [arm.label, "valid", *rate, change, "1.0"] in shown
    assert "\u2026" not in out.getvalue()


def test_what_was_judged_on_the_tuning_set_says_so(monkeypatch, tmp_path):
    tuned = {"validation.seed": TUNING_SEED}
    for settings, judged in (({}, "validation set"), (tuned, "tuning set")):
        results = summed_up(monkeypatch, tmp_path, ENDS, (), 0, look_ahead=False, settings=settings)
        assert f"instances of the {judged}." in markdown(results)


def test_the_best_constant_config_alone_makes_no_preset_fit(monkeypatch, tmp_path):
    constant = {"uniform": 0.4, "waits": 0.8, "large": 0.4}
    assert summed_up(monkeypatch, tmp_path, constant, ("waits", "large"), 0.8).fit
    assert not summed_up(monkeypatch, tmp_path, constant, ("waits", "waits"), 0.8).fit
