"""How an engineer behaves, in numbers: how far a proposal moves the config, and whether it follows the
evidence.

The questions are those that arXiv 2606.17682 asks of its proposals by eye; the formulas are ours. All
measures compare three configs and one evaluation: `earlier` (the stage before), `config` (the stage just
trained), `proposed` (the next one), and the breakdown that the engineer saw. r_s is the share of stratum s,
scaled so that the shares sum to 1; a stratum that a config does not name has share 0. The knobs of a stratum
count only where it has data, since nothing is drawn with them elsewhere. p_s is the valid rate of stratum s
on the validation set; a stratum without answers has none. What is not defined is None. Whether the reason
given for a proposal says what is true is in `engineer.claims`.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from engineer.claims import Claims, check_claims
from envgen.breakdown import Breakdown, Counts, Difference
from envgen.config import SHARE, EnvConfig
from envgen.family import Space
from envgen.frozen import Frozen

UNSOLVED, SOLVED = 0.05, 0.95
"""A stratum under the first valid rate counts as unsolved, over the second as solved; exactly 5 % or 95 % is
neither."""
KEPT = 0.02
"""A knob that moves by at most this much is left as it was: scaling shares to sum to 1 moves them about as
far unasked."""
SMALLEST_MOVE = 0.01
"""A smaller move is none: less than this share of the data, or an edit that is no longer than this."""
_ROUNDING = 1e-9


class EditSize(Frozen):
    """L1 distance between two configs, knob by knob: the sum of |new - old| over strata."""

    data_ratio: float = Field(ge=0, le=2)
    """Over all strata; 2 if no instance keeps its stratum. Half of it is the share of the data that moved."""
    knobs: dict[str, Annotated[float, Field(ge=0)] | None]
    """Knob -> the same over the strata that have it and have data in both configs; None if there are none."""


class EvidenceShares(Frozen):
    """Shares of a config's data by what the evidence says of its strata; each from 0 to 1."""

    unsolved: float
    """On strata under 5 % valid."""
    solved: float
    """On strata over 95 % valid."""
    unseen: float
    """On strata that were not evaluated."""


class SignalGain(Frozen):
    """Change of the expected learning signal of an instance, from -1 to 1."""

    value: float
    low: float
    """Least value for any valid rates within the 95 % Wilson intervals of their strata."""
    high: float
    """Greatest value for such rates."""


class ProposalBehaviour(Frozen):
    """What one proposal did with the config and the evidence of the stage before it."""

    edit: EditSize
    """From the config of the stage to the proposed one, after projection."""
    shares: EvidenceShares
    """Of the config of the stage."""
    proposed_shares: EvidenceShares
    """Of the proposed config, by the same evidence."""
    preserved: tuple[str, ...]
    """Strata left as they were, see `preserved_strata`."""
    worked: tuple[str, ...]
    """Strata that worked in the stage, see `worked_strata`."""
    worked_preserved: tuple[str, ...]
    """Those of them that were left as they were."""
    signal_gain: SignalGain | None
    """See `signal_gain`."""
    agreement: float | None = Field(ge=-1, le=1)
    """See `agreement`."""
    valid_change: Difference
    """Valid rate after the stage minus that of the evaluation before (of the base policy for stage 0),
    paired.
    """
    undone: float | None = Field(ge=-1, le=1)
    """See `undone`; None also if the valid rate did not drop."""
    claims: Claims | None = None
    """Of the rationale, see `check_claims`; None where they were not checked."""

    @property
    def dropped(self) -> bool:
        """Whether the valid rate fell: the paired 95 % interval of its change lies below 0."""
        return fell(self.valid_change)


def proposal_behaviour(
    space: Space,
    earlier: EnvConfig | None,
    config: EnvConfig,
    proposed: EnvConfig,
    breakdown: Breakdown,
    valid_change: Difference,
    changes: Mapping[str, Difference],
    rationale: str,
) -> ProposalBehaviour:
    """All measures of one proposal; `earlier` is None after stage 0, the changes are against the evaluation
    before."""
    preserved, worked = preserved_strata(config, proposed), worked_strata(config, changes)
    return ProposalBehaviour(
        edit=edit_size(space, config, proposed),
        shares=evidence_shares(config, breakdown),
        proposed_shares=evidence_shares(proposed, breakdown),
        preserved=preserved,
        worked=worked,
        worked_preserved=tuple(name for name in worked if name in preserved),
        signal_gain=signal_gain(config, proposed, breakdown),
        agreement=agreement(config, proposed, breakdown),
        valid_change=valid_change,
        undone=undone(space, earlier, config, proposed)
        if earlier is not None and fell(valid_change)
        else None,
        claims=check_claims(space, rationale, config, proposed, breakdown),
    )


def budgets(configs: list[EnvConfig]) -> dict[str, tuple[float, ...]]:
    """Stratum -> its share of the data in each config, 0 to 1; each config's shares sum to 1."""
    shares = [_shares(config) for config in configs]
    return {name: tuple(share.get(name, 0.0) for share in shares) for name in _names(*configs)}


def edit_size(space: Space, old: EnvConfig, new: EnvConfig) -> EditSize:
    """How far a config moves, see `EditSize`."""
    moves = _knob_moves(old, new)
    by_knob = {
        knob.name: [move for (_, name), move in moves.items() if name == knob.name] for knob in space.knobs
    }
    knobs = {name: sum(map(abs, found)) if found else None for name, found in by_knob.items()}
    return EditSize(data_ratio=min(sum(map(abs, _moves(old, new).values())), 2.0), knobs=knobs)


def evidence_shares(config: EnvConfig, breakdown: Breakdown) -> EvidenceShares:
    """Where the data goes by what the evidence says, see `EvidenceShares`."""
    found = dict.fromkeys(EvidenceShares.model_fields, 0.0)
    for name, share in _shares(config).items():
        part = _evidence(breakdown).get(name)
        if part is None:
            found["unseen"] += share
        elif part.valid < UNSOLVED * part.n:
            found["unsolved"] += share
        elif part.valid > SOLVED * part.n:
            found["solved"] += share
    return EvidenceShares(**{name: min(share, 1.0) for name, share in found.items()})


def preserved_strata(old: EnvConfig, new: EnvConfig) -> tuple[str, ...]:
    """Strata with data in both configs of which nothing (share, knobs) moved by more than 0.02."""
    moves = {(name, SHARE): move for name, move in _moves(old, new).items()} | _knob_moves(old, new)
    moved = {name for (name, _), move in moves.items() if abs(move) > KEPT + _ROUNDING}
    return tuple(name for name in _drawn_in_both(old, new) if name not in moved)


def worked_strata(config: EnvConfig, changes: Mapping[str, Difference]) -> tuple[str, ...]:
    """Strata that had data and whose valid rate rose over the stage: the paired 95 % interval lies above
    0."""
    drawn = [name for name, share in _shares(config).items() if share > 0]
    return tuple(name for name in drawn if name in changes and changes[name].low > 0)


def signal_gain(old: EnvConfig, new: EnvConfig, breakdown: Breakdown) -> SignalGain | None:
    """Sum over strata of (r'_s - r_s) g_s with the signal g_s = 4 p_s (1 - p_s), from -1 to 1.

    p (1 - p) is the variance of a right-or-wrong reward within a group of answers, without which a
    group-relative advantage is 0; the factor 4 makes it 1 at 50 % valid, where R-Zero (2508.05004) puts the
    most useful tasks, and 0 at 0 % and 100 %. None if a stratum whose share moves was not evaluated.
    """
    moves, evidence = _moves(old, new), _evidence(breakdown)
    moved = {name: move for name, move in moves.items() if abs(move) > _ROUNDING}
    if not moved.keys() <= evidence.keys():
        return None
    value = low = high = 0.0
    for name, move in moved.items():
        least, greatest = _signal_bounds(evidence[name])
        value += move * _signal(evidence[name].valid_rate.value)
        low += move * (least if move > 0 else greatest)
        high += move * (greatest if move > 0 else least)
    return SignalGain(value=value, low=low, high=high)


def agreement(old: EnvConfig, new: EnvConfig, breakdown: Breakdown) -> float | None:
    """Whether the data moved to where the signal is, from -1 to 1.

    `signal_gain` / (m (max g - min g)), with m = half the L1 distance of the shares (the share that moved)
    and the extremes over all evaluated strata: the mean signal of the strata that the data went to minus that
    of the strata it came from, in units of the spread. 1: all that moved went from the stratum with the least
    signal to the one with the most; -1: the other way round; 0: the signal made no difference. None if less
    than 1 % of the data moved, if all strata have the same signal (all at 0 % or 100 %, say), or if
    `signal_gain` is None.
    """
    gain = signal_gain(old, new, breakdown)
    signals = [_signal(part.valid_rate.value) for part in _evidence(breakdown).values()]
    moved = sum(map(abs, _moves(old, new).values())) / 2
    if gain is None or moved < SMALLEST_MOVE - _ROUNDING or max(signals) - min(signals) <= _ROUNDING:
        return None
    return _clip(gain.value / (moved * (max(signals) - min(signals))))


def undone(space: Space, earlier: EnvConfig, config: EnvConfig, proposed: EnvConfig) -> float | None:
    """How much of the edit that led to `config` the proposal takes back, from -1 to 1.

    -<e, f> / <e, e>, clipped, where e is the edit from `earlier` to `config` and f the one from `config` to
    `proposed`: vectors of the moves of the shares and knobs of all strata, each knob divided by its scale. 1:
    all of it or more; 0: nothing, as when the config is kept; -1: the same edit again or more of it. None
    without an edit e: if its Euclidean length is at most 0.01.
    """
    edit, answer = _edit_vector(space, earlier, config), _edit_vector(space, config, proposed)
    length = sum(move * move for move in edit.values())
    if length <= SMALLEST_MOVE**2:
        return None
    return _clip(-sum(move * answer.get(knob, 0.0) for knob, move in edit.items()) / length)


def fell(change: Difference) -> bool:
    """Whether a rate dropped: the interval of its change lies below 0."""
    return change.high < 0


def _shares(config: EnvConfig) -> dict[str, float]:
    total = sum(part.data_ratio for part in config.strata.values())
    return {name: part.data_ratio / total for name, part in config.strata.items()}


def _names(*configs: EnvConfig) -> list[str]:
    """The strata of configs, in the order of the first, then of the others."""
    return list(dict.fromkeys(name for config in configs for name in config.strata))


def _moves(old: EnvConfig, new: EnvConfig) -> dict[str, float]:
    before, after = _shares(old), _shares(new)
    return {name: after.get(name, 0.0) - before.get(name, 0.0) for name in _names(old, new)}


def _drawn_in_both(old: EnvConfig, new: EnvConfig) -> list[str]:
    both = [name for name in old.strata if name in new.strata]
    return [name for name in both if min(old.strata[name].data_ratio, new.strata[name].data_ratio) > 0]


def _knob_moves(old: EnvConfig, new: EnvConfig) -> dict[tuple[str, str], float]:
    """(stratum, knob) -> its move, of the strata with data in both configs."""
    return {
        (name, knob): value - old.strata[name][knob]
        for name in _drawn_in_both(old, new)
        for knob, value in new.strata[name].knobs.items()
        if knob in old.strata[name].knobs
    }


def _edit_vector(space: Space, old: EnvConfig, new: EnvConfig) -> dict[tuple[str, str], float]:
    scales = {knob.name: knob.widest[1] - knob.widest[0] or 1.0 for knob in space.knobs}
    edit = {(name, SHARE): move for name, move in _moves(old, new).items()}
    return edit | {
        key: move / scales[key[1]] for key, move in _knob_moves(old, new).items() if key[1] in scales
    }


def _evidence(breakdown: Breakdown) -> dict[str, Counts]:
    return {name: part for name, part in breakdown.strata.items() if part.n}


def _signal(rate: float) -> float:
    return 4 * rate * (1 - rate)


def _signal_bounds(part: Counts) -> tuple[float, float]:
    """Least and greatest signal of the valid rates within the interval."""
    rate = part.valid_rate
    ends = _signal(rate.low), _signal(rate.high)
    return min(ends), 1.0 if rate.low <= 0.5 <= rate.high else max(ends)


def _clip(value: float) -> float:
    return min(max(value, -1.0), 1.0) + 0.0  # never -0.0
