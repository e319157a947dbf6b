"""A plan or an answer of an instance as a picture."""

from pathlib import Path

from envgen.errors import DataError
from envgen.files import atomic_path, read_text
from envgen.parser import parse_plan
from envgen.render import board_svg, replay_svg
from envgen.still import still_svg, to_png
from envgen.verifier import FailureCategory, Verdict, verify, verify_plan
from flows.problems import Posed, solved


def draw(one: Posed, source: str, answer: str | None, output: Path) -> Verdict:
    """Draw the optimal plan, or an answer (a text, or the path of one) with its failure: `.svg` moves, `.png` is still.

    Returns the verdict for what was drawn. DataError for another suffix and for a problem that has no plan.
    """
    if output.suffix not in {".svg", ".png"}:
        raise DataError(f"{output}: its suffix names no kind of picture; expected .svg or .png")
    text = None if answer is None else _text(answer)
    [instance] = solved([one], source)
    problem, plan = instance.problem, instance.solution.plan
    verdict = verify_plan(problem, plan, instance.solution.sum_of_costs) if text is None else verify(instance, text)
    readable = verdict.category is not FailureCategory.PARSE_ERROR
    if text is not None:
        plan = parse_plan(text, problem.num_agents) if readable else tuple((agent.start,) for agent in problem.agents)
    if output.suffix == ".png":
        content = to_png(still_svg(problem, plan, verdict))
    else:
        content = (replay_svg(problem, plan, verdict) if readable else board_svg(problem)).encode()
    with atomic_path(output) as temporary:
        temporary.write_bytes(content)
    return verdict


def _text(answer: str) -> str:
    """An answer given on the command line, or what the file of that name holds."""
    if "(" in answer or "\n" in answer:
        return answer
    return read_text(Path(answer))
