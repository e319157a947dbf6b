"""Read the plan out of a completion. Completions are hostile text: only their end is read, in linear time."""

import re

from envgen.mapf.problem import Plan
from envgen.thinking import final_answer

MAX_CHARACTERS = 64_000
"""Characters read from the end of a completion."""
MAX_CELLS = 500
"""Cells of one agent's path."""

# Possessive throughout: no quantifier ever gives anything back.
_CELL = r"[ \t]*+\([ \t]*+([0-9]{1,3}+)[ \t]*+,[ \t]*+([0-9]{1,3}+)[ \t]*+\)"
_ANY_CELL = _CELL.replace("([0-9]{1,3}+)", "[0-9]{1,3}+")
_AGENT_LINE = re.compile(rf"[ \t]*+Agent[ \t]++([0-9]):((?:{_ANY_CELL}){{1,{MAX_CELLS}}}+)[ \t\r]*+")
_NUMBERS = re.compile(_CELL)


class PlanParseError(ValueError):
    """A completion holds no readable plan; the message says what is missing."""


def parse_plan(completion: str, num_agents: int) -> Plan:
    """Return the plan in the last block of agent lines of a completion, after thinking and other reasoning.

    A block is a run of lines `Agent i: (r,c) (r,c) ...`, blank lines between them allowed, one line for each
    agent 0..num_agents-1 in any order. A path is 1 to 500 cells of ASCII digits, spaces, tabs, commas and
    brackets; numbers run from 0 to 999. Raises PlanParseError.
    """
    block: dict[int, str] = {}
    for line in reversed(final_answer(completion)[-MAX_CHARACTERS:].split("\n")):
        match = _AGENT_LINE.fullmatch(line)
        if match:
            agent, path = match.groups()
            agent = int(agent)
            if agent in block:
                break
            block[agent] = path
        elif block and line.strip():
            break
    if not block:
        raise PlanParseError("no line of the form 'Agent 0: (r,c) (r,c)' found")
    missing, unknown = set(range(num_agents)) - set(block), set(block) - set(range(num_agents))
    if missing:
        raise PlanParseError(f"no line for agent {min(missing)} in the last block")
    if unknown:
        raise PlanParseError(f"a line for agent {min(unknown)}, but there are {num_agents} agents")
    paths = [_NUMBERS.findall(block[agent]) for agent in range(num_agents)]
    return tuple(tuple((int(row), int(column)) for row, column in path) for path in paths)
