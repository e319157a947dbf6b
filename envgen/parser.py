"""Read the plan out of a completion. Completions are hostile text: only their end is read, in linear time."""

import re

from envgen.problem import Plan

MAX_CHARACTERS = 64_000
"""Characters read from the end of a completion."""
MAX_CELLS = 500
"""Cells of one agent's path."""

_AGENT_LINE = re.compile(rf"[ \t]*Agent[ \t]+([0-9]):((?:[ \t]*\([ \t]*[0-9]{{1,3}}[ \t]*,[ \t]*[0-9]{{1,3}}[ \t]*\)){{1,{MAX_CELLS}}})[ \t\r]*")
_CELL = re.compile(r"([0-9]+)[ \t]*,[ \t]*([0-9]+)")


class PlanParseError(ValueError):
    """A completion holds no readable plan; the message says what is missing."""


def parse_plan(completion: str, num_agents: int) -> Plan:
    """The last block of agent lines in `completion`, after any reasoning text.

    A block is a run of lines `Agent i: (r,c) (r,c) ...`, blank lines between them allowed, one line for each agent
    0..num_agents-1 in any order. Raises PlanParseError.
    """
    block: dict[int, str] = {}
    for line in reversed(completion[-MAX_CHARACTERS:].split("\n")):
        match = _AGENT_LINE.fullmatch(line)
        if match and int(match[1]) in block:
            break
        if match:
            block[int(match[1])] = match[2]
        elif block and line.strip():
            break
    if not block:
        raise PlanParseError("no line of the form 'Agent 0: (r,c) (r,c)' found")
    missing = sorted(set(range(num_agents)) - set(block))
    unknown = sorted(set(block) - set(range(num_agents)))
    if missing:
        raise PlanParseError(f"no line for agent {missing[0]} in the last block")
    if unknown:
        raise PlanParseError(f"a line for agent {unknown[0]}, but there are {num_agents} agents")
    return tuple(tuple((int(r), int(c)) for r, c in _CELL.findall(block[agent])) for agent in range(num_agents))
