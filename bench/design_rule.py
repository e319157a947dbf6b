"""The rule that answered the design questions which `tiny` and `tiny-puzzles` were taught.

    envwright engineers bench --engineer bench/design_rule.py:propose

Most data go where about half of the answers are valid, less where nearly all or nearly none are. A knob that
asks for a label moves towards the instances, with the label or without, whose valid rate is nearer to 50 %;
where the question does not say these rates, up where most answers are valid and down where most fail. Each
decision follows from whole percents of one stratum, as the question shows them.
"""

from engineer.context import DesignContext
from envgen.breakdown import Counts, format_alarms
from envgen.config import SHARE
from envgen.space import Knob, Stratum

PARTS = ((4, 1), (15, 3), (35, 5), (66, 6), (86, 5), (97, 3), (101, 1))
"""(percent valid, parts of the data) of a stratum below the first, and not below the one before."""
FORMAT_PARTS = 5
"""Parts of a stratum with the format alarm, which is broken and not hard."""
CLEAR, LARGE = 800, 1600
"""Differences of p (100 - p), p in percent, from which a knob moves by one level, and by two."""
SOLVED, UNSOLVED = 85, 20
"""Percent valid from which a knob rises whose rates by label are not known, and below which it falls."""


def propose(context: DesignContext) -> tuple[dict[str, dict[str, float]], str]:
    """Return edits, and a reason that cites the numbers of each stratum."""
    space, counts = context.space, context.current.breakdown.strata
    alarms = format_alarms(space, context.current.breakdown)
    parts = {
        name: FORMAT_PARTS if name in alarms else _parts(counts[name].valid_percent) for name in space.names
    }
    total, edits, clauses = sum(parts.values()), {}, []
    for stratum in space.strata:
        old, count = space.parts(context.current.config)[stratum.name], counts[stratum.name]
        moves = {knob: move for knob in stratum.knobs if (move := _move(knob, count))}
        moved = {knob.name: _moved(knob, old[knob.name], move) for knob, move in moves.items()}
        edits[stratum.name] = {SHARE: round(parts[stratum.name] / total, 2), **moved}
        clauses.append(_clause(stratum, count, parts[stratum.name], moves, stratum.name in alarms))
    return edits, " ".join(clauses)


def _parts(percent: int) -> int:
    return next(parts for below, parts in PARTS if percent < below)


def _move(knob: Knob, part: Counts) -> int:
    """Levels by which a knob moves."""
    split = part.split(knob.label.name) if knob.label else None
    if split is None:
        return 1 if part.valid_percent >= SOLVED else -1 if part.valid_percent < UNSOLVED else 0
    present, absent = (each.valid_percent * (100 - each.valid_percent) for each in split)
    gap = present - absent
    size = 2 if abs(gap) >= LARGE else 1 if abs(gap) >= CLEAR else 0
    return size if gap > 0 else -size


def _moved(knob: Knob, old: float, move: int) -> float:
    return round(knob.clamped(round(old, 2) + move * knob.step), 2)


def _clause(stratum: Stratum, part: Counts, parts: int, moves: dict[Knob, int], alarm: bool) -> str:
    """What the numbers of a stratum say, and what follows."""
    words = [f"{stratum.label} {part.valid_percent}% valid{', format' if alarm else ''}"]
    for knob in stratum.knobs:
        split = part.split(knob.label.name) if knob.label else None
        if split:
            words.append(f"{split[0].valid_percent}% with {knob.word}, {split[1].valid_percent}% without")
    plan = [f"{parts} {'part' if parts == 1 else 'parts'} of data"]
    plan += [f"{'more' if move > 0 else 'fewer'} {knob.word}" for knob, move in moves.items()]
    return f"{', '.join(words)}: {', '.join(plan)}."
