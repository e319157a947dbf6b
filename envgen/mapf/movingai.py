"""Problems in the MovingAI benchmark format: a `.scen` file, one row an agent, and the `.map` its rows name.

Columns of a row are bucket, map, map width, map height, start x, start y, goal x, goal y and optimal length;
x is the column, y the row, the length is the agent's own shortest path. Holes are obstacles `@`.
"""

from pathlib import Path

from pydantic import ValidationError

from envgen.errors import DataError, describe_validation_error, shown
from envgen.files import atomic_path, read_text
from envgen.mapf.problem import MAX_AGENTS, MAX_SIZE, MIN_SIZE, Agent, Cell, Problem
from envgen.mapf.solver.solve import solve

_FREE, _BLOCKED = ".GS", "@OTW"
_COLUMNS = "bucket map width height start-x start-y goal-x goal-y length"


def read_scenario(path: Path, agents: int | None = None) -> Problem:
    """The problem of a `.scen` file; its id is the file's stem.

    The map is looked for beside it, whatever its folder in the rows. `agents` keeps the first rows only.
    Holes come row by row. DataError names file and line.
    """
    lines = read_text(path).split("\n")
    if not lines[0].startswith("version"):
        raise DataError(
            f"{path}: line 1: expected 'version 1', as in MovingAI scenario files, got {shown(lines[0])}"
        )
    rows = [
        (f"{path}: line {number}", line) for number, line in enumerate(lines[1:], start=2) if line.strip()
    ]
    if not rows:
        raise DataError(f"{path}: holds no agent; add a row '{_COLUMNS}' for each")
    wanted = agents or len(rows)
    if wanted > min(len(rows), MAX_AGENTS):
        raise DataError(
            f"{path}: {wanted} agents asked for, the file has {len(rows)} and at most {MAX_AGENTS} are "
            "solved; choose fewer with --agents"
        )
    read = [_read_row(where, line) for where, line in rows[:wanted]]
    names = {name for name, _, _ in read}
    if len(names) > 1:
        raise DataError(
            f"{path}: its agents are on several maps, {shown(sorted(names))}; "
            "give every map a file of its own"
        )
    size, holes = read_map(path.parent / names.pop())
    for (where, _), (name, sides, _) in zip(rows, read, strict=False):
        if sides != (size, size):
            raise DataError(
                f"{where}: width and height are {sides[0]} and {sides[1]}, but {name} is {size}x{size}; "
                "correct the row or the map"
            )
    try:
        return Problem(
            id=path.stem, size=size, holes=tuple(holes), agents=tuple(agent for _, _, agent in read)
        )
    except ValidationError as error:
        raise DataError(describe_validation_error(error, str(path))) from None


def read_map(path: Path) -> tuple[int, list[Cell]]:
    """Side length (3 to 10) and holes, row by row, of a `.map` file; DataError names file and line."""
    lines = [line.rstrip("\r") for line in read_text(path).split("\n")]
    if "map" not in lines:
        raise DataError(f"{path}: has no line 'map'; expected a MovingAI map file")
    begin = lines.index("map") + 1
    rows = [(number, line) for number, line in enumerate(lines[begin:], start=begin + 1) if line]
    size = len(rows)
    widths = sorted({len(row) for _, row in rows})
    if not MIN_SIZE <= size <= MAX_SIZE or widths != [size]:
        raise DataError(
            f"{path}: the map must be square with {MIN_SIZE} to {MAX_SIZE} cells a side, "
            f"got {size} rows of {shown(widths)} cells"
        )
    for number, line in enumerate(lines[: begin - 1], start=1):
        name, _, value = line.partition(" ")
        if name in {"height", "width"} and value.strip() != str(size):
            raise DataError(
                f"{path}: line {number}: {name} is {shown(value.strip())}, "
                f"but the map below is {size}x{size}; correct the line or the map"
            )
    holes = []
    for r, (number, row) in enumerate(rows):
        for c, letter in enumerate(row):
            if letter not in _FREE + _BLOCKED:
                raise DataError(
                    f"{path}: line {number}: unknown terrain {letter!r}; "
                    f"expected one of {''.join(sorted(_FREE + _BLOCKED))}"
                )
            if letter in _BLOCKED:
                holes.append((r, c))
    return size, holes


def write_scenario(path: Path, problem: Problem) -> Path:
    """Write a problem as a `.scen` file with its `.map` beside it, both or none; returns the path of the map.

    The problem's id is not kept: a reader takes the name of the file. DataError if an agent cannot reach its
    goal, which the format cannot say.
    """
    map_path = path.with_suffix(".map")
    if map_path.name != " ".join(map_path.name.split()):
        raise DataError(
            f"{path}: the rows of a scenario are lines with tabs; choose a name without tabs, "
            "line breaks and double blanks"
        )
    holes = set(problem.holes)
    grid = [
        "".join("@" if (r, c) in holes else "." for c in range(problem.size)) for r in range(problem.size)
    ]
    header = ["type octile", f"height {problem.size}", f"width {problem.size}", "map"]
    rows = ["version 1"]
    for index, agent in enumerate(problem.agents):
        # On a board of its own an agent's optimal plan is its shortest path.
        alone = solve(problem.model_copy(update={"agents": (agent,)}))
        if alone is None:
            raise DataError(
                f"agent {index} cannot reach its goal {agent.goal} from {agent.start}; "
                "a .scen row needs its path length, write .jsonl instead"
            )
        fields = [
            0,
            map_path.name,
            problem.size,
            problem.size,
            *agent.start[::-1],
            *agent.goal[::-1],
            alone.sum_of_costs,
        ]
        rows.append("\t".join(map(str, fields)))
    with atomic_path(path) as scenario, atomic_path(map_path) as board:
        scenario.write_text("\n".join(rows) + "\n", encoding="utf-8")
        board.write_text("\n".join([*header, *grid]) + "\n", encoding="utf-8")
    return map_path


def _read_row(where: str, line: str) -> tuple[str, tuple[int, int], Agent]:
    """Name of the map, its (width, height), and the agent of a row."""
    fields = line.strip().split("\t" if "\t" in line else None)
    try:
        width, height, x, y, goal_x, goal_y = (int(field) for field in fields[2:8])
    except ValueError:
        raise DataError(
            f"{where}: expected '{_COLUMNS}' with whole numbers, got {shown(line.strip())}"
        ) from None
    try:
        return Path(fields[1]).name, (width, height), Agent(start=(y, x), goal=(goal_y, goal_x))
    except ValidationError as error:
        raise DataError(
            f"{describe_validation_error(error, where)}; cells are (row, column) = (y, x)"
        ) from None
