"""The plan that a command shows: the optimal one, or that of an answer, with its verdict."""

from pathlib import Path

from envgen.errors import DataError
from envgen.files import read_text
from envgen.mapf.commands.problems import Posed, solved
from envgen.mapf.parser import parse_plan
from envgen.mapf.problem import Plan
from envgen.mapf.verifier import FailureCategory, Verdict, verify, verify_plan


def judged_plan(one: Posed, source: str, answer: str | None) -> tuple[Plan | None, Verdict]:
    """The optimal plan, or that of an answer (a text, or the path of one), and its verdict; None if the
    answer holds no plan.

    DataError for a problem that has no plan.
    """
    text = None if answer is None else _text(answer)
    [instance] = solved([one], source)
    if text is None:
        plan = instance.solution.plan
        return plan, verify_plan(instance.problem, plan, instance.solution.sum_of_costs)
    verdict = verify(instance, text)
    readable = verdict.category is not FailureCategory.PARSE_ERROR
    return parse_plan(text, instance.problem.num_agents) if readable else None, verdict


def _text(answer: str) -> str:
    """An answer given on the command line, or what the file of that name holds."""
    if "(" in answer or "\n" in answer:
        return answer
    try:
        return read_text(Path(answer))
    except DataError as error:
        raise DataError(
            f"{error}; --answer takes the path of a text, or an answer, as 'Agent 0: (0,1) (0,2)' with a line"
            " for each agent"
        ) from None
