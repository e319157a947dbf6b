"""What a study consists of: `infra/study/NAME.yaml`, written before anything is run.

A study asks whether redesigning the environment helps. It has rounds; a round has arms and seeds; every arm is run with every
seed, from a stage 0 that the arms share, and its final policy is judged on a test suite that nothing in the loop sees.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from envgen.benchmark import suite_identities
from envgen.config import MAX_HOLE_RATIO, EnvConfig, MapSize, SizeConfig
from envgen.errors import ConfigError, ModelError, describe_validation_error
from envgen.files import canonical_json, digest
from envgen.frozen import Frozen
from envgen.problem import Instance
from envgen.sampler import MAX_AGENTS, MIN_AGENTS, sample
from infra.comparison.results import BASELINES
from infra.comparison.spec import ComparisonSpec, plan
from infra.names import Stem
from infra.preset import load_preset, preset_path, read_yaml
from infra.runs.run import FREE_FIELDS, changed_fields
from policy.checkpoints import resolve_model, weights_identity

STUDIES = Path(__file__).parent
PLAIN, TESTS = "plain", "tests"
"""Folders of a round: the group without a name, and the answers to the test suite."""
RESERVED = {PLAIN, TESTS}
_OF_THE_STUDY = ("agents", "space", "validation", "prompt_style")
"""Fields of the preset that no round may change."""
Ratio = Annotated[float, Field(ge=0, le=1)]


class TestSuite(Frozen):
    """The test suite: of each number of agents, map size, wait ratio and hole ratio the same number of instances."""

    __test__ = False
    boards: dict[Annotated[int, Field(ge=MIN_AGENTS, le=MAX_AGENTS)], tuple[MapSize, ...]] = Field(min_length=1)
    """Number of agents -> map sizes."""
    wait_ratios: tuple[Ratio, ...] = Field(min_length=1)
    hole_ratios: tuple[Annotated[float, Field(ge=0, le=MAX_HOLE_RATIO)], ...] = Field(min_length=1)
    instances: int = Field(ge=1)
    """Instances of each combination."""
    seed: int = Field(ge=0)
    answer_tokens: int = Field(ge=8)
    """Longest answer."""

    def draw(self) -> list[Instance]:
        """The instances, the same on every machine; none of them is in the benchmark suite. SamplingError if there are too few."""
        found: list[Instance] = []
        for agents, size, wait, hole in self._parts():
            config = EnvConfig(sizes={size: SizeConfig(data_ratio=1, hole_ratio=hole, wait_ratio=wait)})
            held_out = suite_identities(agents).union(instance.problem.id for instance in found)
            found += sample(config, self.instances, agents=agents, seed=self.seed, purpose=f"test-{wait}-{hole}-{size}", held_out=held_out)[0]
        return found

    def _parts(self) -> Iterator[tuple[int, int, float, float]]:
        for agents, sizes in self.boards.items():
            for size in sizes:
                for wait in self.wait_ratios:
                    for hole in self.hole_ratios:
                        yield agents, size, wait, hole


class ArmGroup(Frozen):
    """Arms that share all but the designer."""

    name: str = Field(default="", pattern=r"^[a-z0-9-]*$")
    """Part of the arms' names; empty for the loop as the preset has it."""
    engineers: tuple[str, ...] = Field(min_length=1)
    """As `envwright compare --engineers` takes them: random, checkpoint:V6."""
    settings: dict[str, Any] = {}
    """Dotted field of the preset -> value that these arms have instead, above those of the round."""

    def arm(self, label: str) -> str:
        """What an engineer variant of this group is called in the study."""
        return f"{label}+{self.name}" if self.name else label


Stage0 = Literal["one", "per-seed"]
"""`one`: all seeds go on from one stage 0, so that a designer that draws nothing makes the same first decision for all of them. `per-seed`: each
seed has a stage 0 of its own. Arms share it in both."""


class Round(Frozen):
    """Arms that are run with the same seeds and compared with each other."""

    number: int = Field(ge=1)
    seeds: tuple[int, ...] = Field(min_length=2)
    stage_0: Stage0 = "one"
    settings: dict[str, Any] = {}
    """Dotted field of the preset -> value that all arms of the round have instead."""
    groups: tuple[ArmGroup, ...] = Field(min_length=1)
    primary: str
    """The arm of the primary hypothesis."""

    @property
    def folder(self) -> str:
        """Name of its folder."""
        return f"round-{self.number}"

    @property
    def batches(self) -> list[tuple[int, ...]]:
        """Seeds that go on from the same stage 0."""
        return [self.seeds] if self.stage_0 == "one" else [(seed,) for seed in self.seeds]


class StudySpec(Frozen):
    """A study as it is registered."""

    name: Stem
    preset: str
    """A preset that all arms share; in the study's file the name of a shipped one, or the path of a YAML file from there."""
    test: TestSuite
    rounds: tuple[Round, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        numbers = [one.number for one in self.rounds]
        if len(set(numbers)) < len(numbers):
            raise ValueError(f"rounds {numbers}: a number is used twice; number them 1, 2, ...")
        seeds = [seed for one in self.rounds for seed in one.seeds]
        if len(set(seeds)) < len(seeds):
            raise ValueError(f"seeds {seeds}: a seed is used twice; a round needs fresh ones")
        for one in self.rounds:
            arms = [arm for arm, _, _ in self.arms(one)]
            if len(set(arms)) < len(arms):
                raise ValueError(f"round {one.number}: {arms} names an arm twice; give one of the groups a name")
            if missing := {one.primary, *BASELINES} - set(arms):
                raise ValueError(f"round {one.number}: arms {arms} lack {', '.join(sorted(missing))}; every round has its primary arm and both baselines")
            self._check_groups(one)
        return self

    def _check_groups(self, one: Round) -> None:
        """The groups of a round have folders of their own, equal training, and nothing of the test in it or in validation; ValueError otherwise."""
        names = [group.name or PLAIN for group in one.groups]
        if len(set(names)) < len(names) or {group.name for group in one.groups} & RESERVED:
            raise ValueError(f"round {one.number}: groups {names}: give each another name, but not {PLAIN} or {TESTS}, and only one of them none")
        presets, plain = [self.comparison(one, group).preset for group in one.groups], load_preset(self.preset)
        for field in _OF_THE_STUDY:
            if getattr(presets[0], field) != getattr(plain, field):
                raise ValueError(f"round {one.number}: settings change {field}, which decides the study's instances; make another study of it")
        for name, preset in zip(names, presets, strict=True):
            if changed := changed_fields(presets[0], preset, FREE_FIELDS - {"stages"} | {"design"}):
                raise ValueError(f"round {one.number}: group {name} is trained otherwise than {names[0]} ({changed}); change only design in a group")
            known = {*preset.space.map_sizes, *preset.validation.map_sizes}
            if seen := known & set(self.test.boards.get(preset.agents, ())):
                raise ValueError(f"test.boards.{preset.agents}: {sorted(seen)} are trained on or validated on, so that the test is no transfer; leave them out")

    def round(self, number: int) -> Round:
        """A round by its number; ConfigError if there is none."""
        for one in self.rounds:
            if one.number == number:
                return one
        raise ConfigError(f"round {number}: study {self.name} has the rounds {', '.join(str(one.number) for one in self.rounds)}")

    def to_run(self, numbers: Iterable[int]) -> list[Round]:
        """The rounds of these numbers, all rounds for none; ConfigError if there is no such round, or not the policy that it starts from."""
        chosen = [self.round(number) for number in numbers] or list(self.rounds)
        for one in chosen:
            try:
                resolve_model(self.start(one))
            except ModelError as error:
                raise ConfigError(f"study {self.name}, round {one.number}: cannot be run: {error}") from None
        return chosen

    def start(self, one: Round) -> str:
        """The policy that all curricula of a round start from, as its preset names it."""
        return self.comparison(one, one.groups[0]).preset.model

    def comparison(self, one: Round, group: ArmGroup, seeds: tuple[int, ...] = ()) -> ComparisonSpec:
        """The curricula of a group as a comparison, of all seeds or of some that share a stage 0; ConfigError says what is wrong with them."""
        numbers = ",".join(map(str, seeds or one.seeds))
        return plan(self.preset, ",".join(group.engineers), numbers, settings=one.settings | group.settings, name=group.name or PLAIN)

    def arms(self, one: Round) -> list[tuple[str, ArmGroup, str]]:
        """(arm, its group, label of its engineer variant) of a round, in order."""
        return [(group.arm(engineer.label), group, engineer.label) for group in one.groups for engineer in self.comparison(one, group).engineers]

    def registration(self, one: Round) -> dict[str, Any]:
        """All that is registered of a round: its arms and seeds, the test suite, the preset's file, and the weights that all start from.

        What a file leaves out is left out here too: a default that a later version adds does not make another registration.
        """
        preset = {name: value for name, value in read_yaml(preset_path(self.preset)).items() if name != "description"}
        facts = {
            "round": one.model_dump(mode="json", exclude_defaults=True),
            "test": self.test.model_dump(mode="json"),
            "preset": preset,
            "start": weights_identity(self.start(one)),
        }
        return json.loads(canonical_json(facts))  # as it is when it has been stored and read

    def registered(self, one: Round) -> str:
        """Digest of `registration`."""
        return digest(self.registration(one))


def load_study(name: str) -> StudySpec:
    """A shipped study by name, or a YAML file by path; ConfigError names file and field."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else STUDIES / f"{name}.yaml"
    if not path.is_file():
        shipped = ", ".join(sorted(found.stem for found in STUDIES.glob("*.yaml")))
        raise ConfigError(f"{name}: no such study; the shipped ones are {shipped}, or give the path of a YAML file")
    raw = read_yaml(path)
    if str(raw.get("preset")).endswith((".yaml", ".yml")):
        raw["preset"] = str(path.parent / str(raw["preset"]))
    try:
        return StudySpec.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(describe_validation_error(error, str(path))) from None


def shipped_studies() -> list[StudySpec]:
    """All of them; no training may see their test suites."""
    return [load_study(path.stem) for path in sorted(STUDIES.glob("*.yaml"))]
