"""What a study consists of: `infra/analysis/study/NAME.yaml`, written before anything is run.

A study asks whether redesigning the environment helps. It is a list of comparisons, its rounds, whose final
policies are judged on a test suite that nothing in the loop sees.
"""

import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from envgen.errors import ConfigError, ModelError, describe_validation_error
from envgen.files import canonical_json, digest
from envgen.frozen import Frozen
from envgen.suites import TestSuite, test_suite_of
from envgen.yaml_files import read_yaml
from infra.analysis.results import BASELINES, pairs
from infra.analysis.spec import ComparisonSpec, load_spec, plan
from infra.config.names import Stem
from infra.config.preset import Preset, load_preset, preset_path
from infra.runs.run import FREE_FIELDS, changed_fields
from policy.checkpoints import FORMER, resolve_model, weights_identity

STUDIES = Path(__file__).parent
_OF_THE_STUDY = ("family", "validation", "prompt_style")
"""Fields of the preset that no round may change."""


class ArmGroup(Frozen):
    """Arms that share all but the engineer."""

    name: str = Field(default="", pattern=r"^[a-z0-9-]*$")
    """Part of the arms' names; empty for the loop as the preset has it."""
    engineers: tuple[str, ...] = Field(min_length=1)
    """As `envwright compare --engineers` takes them: random, checkpoint:V6."""
    settings: dict[str, Any] = {}
    """Dotted field of the preset -> value that these arms have instead, above those of the round."""


class Round(Frozen):
    """Arms that are run with the same seeds and compared with each other."""

    number: int = Field(ge=1)
    seeds: tuple[int, ...] = Field(min_length=2)
    stage_0: Literal["one", "per-seed"] = "one"
    settings: dict[str, Any] = {}
    """Dotted field of the preset -> value that all arms of the round have instead."""
    groups: tuple[ArmGroup, ...] = Field(min_length=1)
    primary: str
    """The arm of the primary hypothesis."""

    @property
    def folder(self) -> str:
        """Name of its folder."""
        return f"round-{self.number}"


class StudySpec(Frozen):
    """A study as it is registered."""

    name: Stem
    preset: str
    """A preset that all arms share: the name of a shipped one, or in the file a path from there."""
    test: dict[str, Any]
    """`suite`, in the words of the preset's family."""
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
            arms = self.arms(one)
            if len(set(arms)) < len(arms):
                raise ValueError(
                    f"round {one.number}: {arms} names an arm twice; give one of the groups a name"
                )
            if one.primary not in {arm for arm, _ in pairs(arms)}:
                baseline = f"a baseline for {one.primary}, {' or '.join(BASELINES)}"
                lacking = baseline if one.primary in arms else one.primary
                remedy = "every round has its primary arm and a baseline"
                raise ValueError(f"round {one.number}: arms {arms} lack {lacking}; {remedy}")
            self._check_presets(one)
        return self

    def _check_presets(self, one: Round) -> None:
        """Arms have equal training, and nothing of the test is in it or in validation; else ValueError."""
        plain, first = load_preset(self.preset), self.comparison(one).preset
        for field in _OF_THE_STUDY:
            if getattr(first, field) != getattr(plain, field):
                changed = f"settings change {field}, which decides the study's instances"
                raise ValueError(f"round {one.number}: {changed}; make another study of it")
        for arm in self.comparison(one).arms:
            preset = arm.preset or first
            if changed := changed_fields(first, preset, FREE_FIELDS - {"stages"} | {"engineer"}):
                other = f"{arm.label} is trained otherwise than the first group ({changed})"
                raise ValueError(f"round {one.number}: {other}; change only engineer in a group")
        try:
            self.suite.check(first.family.options, {*first.space.names, *first.validation.strata})
        except ValueError as error:
            raise ValueError(f"test.{error}") from None

    @property
    def suite(self) -> TestSuite:
        """The test suite; ValueError if it is none, ConfigError if the family has none."""
        try:
            return test_suite_of(load_preset(self.preset).task).model_validate(self.test)
        except ValidationError as error:
            raise ValueError(describe_validation_error(error, "test")) from None

    def round(self, number: int) -> Round:
        """A round by its number; ConfigError if there is none."""
        for one in self.rounds:
            if one.number == number:
                return one
        known = ", ".join(str(one.number) for one in self.rounds)
        raise ConfigError(f"round {number}: study {self.name} has the rounds {known}")

    def to_run(
        self, numbers: Iterable[int] = (), seeds: Iterable[int] = ()
    ) -> list[tuple[Round, tuple[int, ...]]]:
        """The rounds of these numbers, all for none, with those of these seeds that they have, all for none.

        ConfigError if a round, a seed or the base policy of a round is missing."""
        chosen = [self.round(number) for number in numbers] or list(self.rounds)
        known = [seed for one in chosen for seed in one.seeds]
        if odd := [seed for seed in seeds if seed not in known]:
            names = ", ".join(map(str, known))
            raise ConfigError(f"seed {odd[0]}: is not registered; study {self.name} has the seeds {names}")
        for one in chosen:
            try:
                resolve_model(self.comparison(one).preset.model)
            except ModelError as error:
                raise ConfigError(f"study {self.name}, round {one.number}: cannot be run: {error}") from None
        wanted = {*seeds} or {*known}
        found = [(one, tuple(seed for seed in one.seeds if seed in wanted)) for one in chosen]
        return [(one, of_round) for one, of_round in found if of_round]

    @cached_property
    def _comparisons(self) -> dict[int, ComparisonSpec]:
        return {one.number: self._comparison(one) for one in self.rounds}

    def comparison(self, one: Round) -> ComparisonSpec:
        """The curricula of a round."""
        return self._comparisons[one.number]

    def _comparison(self, one: Round) -> ComparisonSpec:
        seeds = ",".join(map(str, one.seeds))
        arms, presets = [], list[Preset]()
        for group in one.groups:
            found = plan(
                self.preset, ",".join(group.engineers), seeds, settings=one.settings | group.settings
            )
            own = found.preset if presets and found.preset != presets[0] else None
            presets.append(found.preset)
            suffix = f"+{group.name}" if group.name else ""
            for arm in found.arms:
                changes = {"name": arm.label + suffix if suffix else "", "preset": own}
                arms.append(arm.model_copy(update=changes))
        return ComparisonSpec(
            name=one.folder,
            preset=presets[0],
            arms=tuple(arms),
            seeds=one.seeds,
            stage_0=one.stage_0,
            test=self.suite.model_dump(mode="json"),
        )

    def arms(self, one: Round) -> list[str]:
        """The arms of a round, in order."""
        return [arm.label for arm in self.comparison(one).arms]

    def registration(self, one: Round) -> dict[str, Any]:
        """All that is registered of a round: arms, seeds, test suite, preset, weights of the base policy.

        What a file leaves out is left out here too: a default that a later version adds does not make
        another one.
        """
        preset = read_yaml(preset_path(self.preset))
        if former := FORMER.get(preset.get("model", "")):
            preset["model"] = former.called
        facts = {
            "round": one.model_dump(mode="json", exclude_defaults=True),
            "test": self.suite.model_dump(mode="json"),
            "preset": self.suite.registered(preset),
            "start": weights_identity(self.comparison(one).preset.model),
        }
        return json.loads(canonical_json(facts))  # as it is when it has been stored and read

    def registered(self, one: Round) -> str:
        """Digest of `registration`."""
        return digest(self.registration(one))


def load_study(name: str) -> StudySpec:
    """A shipped study by name, or a YAML file by path; ConfigError names file and field."""
    return load_spec(name, STUDIES, StudySpec, "study")


def shipped_studies() -> list[StudySpec]:
    """All of them; no training may see their test suites."""
    return [load_study(path.stem) for path in sorted(STUDIES.glob("*.yaml"))]
