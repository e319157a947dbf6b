"""How much a curriculum or a comparison asks for: said before it starts, and --yes asked for if that is a
lot."""

from envgen.terminal import ask_for_yes, say
from infra.analysis.spec import ComparisonSpec
from infra.config.workload import Work, workload

MOST = 2_000_000_000
"""Tokens, generated and trained on, that need no --yes. The largest preset that is shipped asks for 1.7
billion."""
PACE = 10_000
"""Tokens a second that hours are told for, as an example: what a machine does is not known before it runs."""


def announce(work: Work, yes: bool) -> None:
    """Say how many answers and tokens the work is about; ConfigError if it is a lot and was not meant."""
    tokens = work.generated + work.trained
    hours = f"; {tokens / PACE / 3600:,.0f} hours at {PACE:,} tokens a second" if tokens > PACE * 3600 else ""
    say(
        f"in all about {work.answers:,} answers, {work.generated:,} tokens generated and {work.trained:,}"
        f" trained on{hours}"
    )
    if tokens > MOST:
        ask_for_yes(f"{tokens:,} tokens", yes, "ask for fewer stages, instances, seeds or engineers")


def work_of(spec: ComparisonSpec) -> Work:
    """The work of a comparison: a stage 0 that curricula share is done once, but for the design after it."""
    roots = [workload(preset).total for preset in spec.roots.values()]
    children = [workload(spec.preset_of(child)) for child in spec.children]
    own = [one.stage.times(one.stages - 1) + one.engineer for one in children]
    return sum([*roots, *own], start=Work(answers=0, prompt_tokens=0, generated=0))
