"""A plan or an answer of an instance as a picture."""

from pathlib import Path

from envgen.errors import DataError
from envgen.files import atomic_path
from envgen.mapf.commands.answers import judged_plan
from envgen.mapf.commands.problems import Posed
from envgen.mapf.plan_picture import still_svg, to_png
from envgen.mapf.render import board_svg, replay_svg
from envgen.mapf.verifier import Verdict


def draw(one: Posed, source: str, answer: str | None, output: Path) -> Verdict:
    """Draw the optimal plan, or an answer (a text, or the path of one) with its failure: `.svg` moves, `.png`
    is still.

    Returns the verdict for what was drawn. DataError for another suffix and for a problem that has no plan.
    """
    if output.suffix not in {".svg", ".png"}:
        raise DataError(f"{output}: its suffix names no kind of picture; expected .svg or .png")
    plan, verdict = judged_plan(one, source, answer)
    if output.suffix == ".png":
        starts = tuple((agent.start,) for agent in one.problem.agents)
        content = to_png(still_svg(one.problem, plan or starts, verdict))
    elif plan is None:
        content = board_svg(one.problem, f"{verdict.outcome}: {verdict.reason}").encode()
    else:
        content = replay_svg(
            one.problem,
            plan,
            verdict,
            f"{verdict.outcome}: {verdict.reason}" if verdict.valid else verdict.reason,
        ).encode()
    with atomic_path(output) as temporary:
        temporary.write_bytes(content)
    return verdict
