"""How much a run or a comparison asks for: printed before it starts; a lot needs --yes."""

from envgen.terminal import ask_for_yes, say
from infra.analysis.spec import ComparisonSpec
from infra.config.workload import Work, run_work, stage_work

MOST = 2_000_000_000
"""Tokens, generated and trained on, that need no --yes. The largest preset that is shipped asks for 1.7
billion."""
PACE = 10_000
"""Tokens a second of the example in hours; the pace of a machine is unknown before it runs."""


def sentence(work: Work) -> str:
    """Return completions, tokens and, for long work, hours at an example pace."""
    tokens = work.generated + work.trained
    hours = f"; {tokens / PACE / 3600:,.0f} hours at {PACE:,} tokens a second" if tokens > PACE * 3600 else ""
    return (
        f"in all about {work.completions:,} completions, {work.generated:,} tokens generated and"
        f" {work.trained:,} trained on{hours}"
    )


def announce(work: Work, yes: bool) -> None:
    """Print how much work is asked for; ConfigError if it is a lot and was not confirmed."""
    say(sentence(work))
    tokens = work.generated + work.trained
    if tokens > MOST:
        ask_for_yes(f"{tokens:,} tokens", yes, "ask for fewer stages, instances, seeds or engineers")


def work_of(spec: ComparisonSpec) -> Work:
    """Return the work of a comparison; a stage 0 that runs share is done once."""
    work = Work(completions=0, generated=0)
    for preset in spec.roots.values():
        work += run_work(preset)
    for child in spec.children:
        preset = spec.preset_of(child)
        work += stage_work(preset).times(preset.stages - 1)
    return work
