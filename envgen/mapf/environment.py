"""MAPF-FrozenLake as an environment; the paper's testbed (arXiv 2606.17682)."""

from collections.abc import Mapping

from envgen.config import EnvConfig
from envgen.environment import Environment, Sample, Source
from envgen.mapf.benchmark import BENCHMARK, SUITE_SHA256, suite_identities
from envgen.mapf.parser import parse_plan
from envgen.mapf.problem import Agent, Instance, Problem
from envgen.mapf.prompts import PromptStyle, answer, prompt
from envgen.mapf.render import board_svg, replay_svg
from envgen.mapf.sampler import draw_size, hole_count
from envgen.mapf.space import Options, space_of
from envgen.mapf.verifier import FailureCategory, Verdict, verify


class MapfFrozenLake(Environment):
    """Boards with holes, drawn with exact counts of those that need a wait and of those that do not."""

    name = "mapf-frozenlake"
    styles = tuple(PromptStyle)
    Options = Options
    instance_type = Instance
    verdict_type = Verdict
    benchmark = BENCHMARK
    picture_legend = (
        "Dark square: hole. Numbered disc: agent. Pale disc: its start. Ring: its goal. Thin line: its path. "
        "Red frame: the cell at which the plan fails."
    )

    def __init__(self, options: Options) -> None:
        self.options = options
        self.space = space_of(options)
        self.version = f"3 {SUITE_SHA256}" if self.reserved() else "3"

    def generate(
        self, stratum: str, knobs: Mapping[str, float], count: int, source: Source, held_out: frozenset[str]
    ) -> Sample:
        """See `envgen.mapf.sampler.draw_size`."""
        return draw_size(int(stratum), knobs, count, self.options.agents, source, held_out)

    def check(self, config: EnvConfig, count: int) -> None:
        """Raise SamplingError for a config whose holes leave the agents no room."""
        for name, number in config.counts(count).items():
            hole_count(int(name), config.strata[name]["hole_ratio"], number, self.options.agents)

    def reserved(self) -> frozenset[str]:
        """Identities of the benchmark suite with as many agents."""
        return suite_identities(self.options.agents)

    def prompt(self, instance: Instance, style: str) -> str:
        """See `envgen.mapf.prompts`."""
        return prompt(instance.problem, PromptStyle(style))

    def reference(self, instance: Instance) -> str:
        """The stored optimal plan."""
        return answer(instance.solution.plan)

    def longest_prompt(self, style: str) -> str:
        """That of the largest board, without holes."""
        size, count = max(self.options.map_sizes), self.options.agents
        cells = [divmod(size * size - 1 - index, size) for index in range(2 * count)]
        agents = [Agent(start=cells[index], goal=cells[count + index]) for index in range(count)]
        return prompt(Problem(size=size, holes=(), agents=tuple(agents)), PromptStyle(style))

    def judge_one(self, instance: Instance, answer: str) -> Verdict:
        """See `envgen.mapf.verifier`."""
        return verify(instance, answer)

    def measures(self, instance: Instance, verdict: Verdict) -> dict[str, float]:
        """How much more than the optimum a valid plan costs."""
        if verdict.sum_of_costs is None:
            return {}
        return {"excess_cost": verdict.sum_of_costs - instance.solution.sum_of_costs}

    def picture(self, instance: Instance, answer: str | None, verdict: Verdict | None) -> str:
        """A replay of the plan up to its first violation, or the board if no plan can be read."""
        if answer is None or verdict is None or verdict.category is FailureCategory.PARSE_ERROR:
            return board_svg(instance.problem)
        return replay_svg(instance.problem, parse_plan(answer, instance.problem.num_agents), verdict)
