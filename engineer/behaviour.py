"""How a designer behaves, in numbers: how far a proposal moves the config, and whether it follows the evidence.

The questions are those that arXiv 2606.17682 asks of its proposals by eye; the formulas are ours. All measures compare
three configs and one evaluation: `earlier` (the stage before), `config` (the stage just trained), `proposed` (the next
one), and the breakdown that the designer saw. r_s is the share of map size s, scaled so that the shares sum to 1; a
size that a config does not name has share 0. hole_ratio and wait_ratio of a size count only where it has data, since
nothing is drawn with them elsewhere. p_s is the valid rate of size s on the validation set; a size without answers has
none. What is not defined is None. Whether the reason given for a proposal says what is true is in `engineer.claims`.
"""

from collections.abc import Mapping

from pydantic import Field

from engineer.claims import Claims, check_claims
from envgen.breakdown import Breakdown, Difference, SizeBreakdown
from envgen.config import MAX_HOLE_RATIO, EnvConfig
from envgen.frozen import Frozen

UNSOLVED, SOLVED = 0.05, 0.95
"""A size under the first valid rate counts as unsolved, over the second as solved; exactly 5 % or 95 % is neither."""
KEPT = 0.02
"""A knob that moves by at most this much is left as it was: scaling shares to sum to 1 moves them about as far unasked."""
SMALLEST_MOVE = 0.01
"""A smaller move is none: less than this share of the data, or an edit that is no longer than this."""
_ROUNDING = 1e-9


class EditSize(Frozen):
    """L1 distance between two configs, knob by knob: the sum of |new - old| over map sizes."""

    data_ratio: float = Field(ge=0, le=2)
    """Over all sizes; 2 if no instance keeps its size. Half of it is the share of the data that moved."""
    hole_ratio: float | None = Field(ge=0)
    """Over the sizes with data in both configs, 0 to 0.5 for each; None if there is no such size."""
    wait_ratio: float | None = Field(ge=0)
    """The same, 0 to 1 for each size."""


class EvidenceShares(Frozen):
    """Shares of a config's data by what the evidence says of its map sizes; each from 0 to 1."""

    unsolved: float
    """On sizes under 5 % valid."""
    solved: float
    """On sizes over 95 % valid."""
    unseen: float
    """On sizes that were not evaluated."""


class SignalGain(Frozen):
    """Change of the expected learning signal of an instance, from -1 to 1."""

    value: float
    low: float
    """Least value for any valid rates within the 95 % Wilson intervals of their sizes."""
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
    preserved: tuple[int, ...]
    """Map sizes left as they were, see `preserved_sizes`."""
    worked: tuple[int, ...]
    """Map sizes that worked in the stage, see `worked_sizes`."""
    worked_preserved: tuple[int, ...]
    """Those of them that were left as they were."""
    signal_gain: SignalGain | None
    """See `signal_gain`."""
    agreement: float | None = Field(ge=-1, le=1)
    """See `agreement`."""
    valid_change: Difference
    """Valid rate after the stage minus that of the evaluation before (of the start policy for stage 0), paired."""
    undone: float | None = Field(ge=-1, le=1)
    """See `undone`; None also if the valid rate did not drop."""
    claims: Claims | None = None
    """Of the rationale, see `check_claims`; None where they were not checked."""

    @property
    def dropped(self) -> bool:
        """Whether the valid rate fell: the paired 95 % interval of its change lies below 0."""
        return fell(self.valid_change)


def proposal_behaviour(
    earlier: EnvConfig | None,
    config: EnvConfig,
    proposed: EnvConfig,
    breakdown: Breakdown,
    valid_change: Difference,
    size_changes: Mapping[int, Difference],
    rationale: str,
) -> ProposalBehaviour:
    """All measures of one proposal; `earlier` is None after stage 0, the changes are against the evaluation before."""
    preserved, worked = preserved_sizes(config, proposed), worked_sizes(config, size_changes)
    return ProposalBehaviour(
        edit=edit_size(config, proposed),
        shares=evidence_shares(config, breakdown),
        proposed_shares=evidence_shares(proposed, breakdown),
        preserved=preserved,
        worked=worked,
        worked_preserved=tuple(size for size in worked if size in preserved),
        signal_gain=signal_gain(config, proposed, breakdown),
        agreement=agreement(config, proposed, breakdown),
        valid_change=valid_change,
        undone=undone(earlier, config, proposed) if earlier is not None and fell(valid_change) else None,
        claims=check_claims(rationale, config, proposed, breakdown),
    )


def budgets(configs: list[EnvConfig]) -> dict[int, tuple[float, ...]]:
    """Map size, ascending -> its share of the data in each config, 0 to 1; each config's shares sum to 1."""
    shares = [_shares(config) for config in configs]
    return {size: tuple(share.get(size, 0.0) for share in shares) for size in sorted(set().union(*shares))}


def edit_size(old: EnvConfig, new: EnvConfig) -> EditSize:
    """How far a config moves, see `EditSize`."""
    both = _drawn_in_both(old, new)
    holes, waits = (
        sum(abs(getattr(new.sizes[size], knob) - getattr(old.sizes[size], knob)) for size in both) if both else None for knob in ("hole_ratio", "wait_ratio")
    )
    return EditSize(data_ratio=min(sum(map(abs, _moves(old, new).values())), 2.0), hole_ratio=holes, wait_ratio=waits)


def evidence_shares(config: EnvConfig, breakdown: Breakdown) -> EvidenceShares:
    """Where the data goes by what the evidence says, see `EvidenceShares`."""
    found = dict.fromkeys(EvidenceShares.model_fields, 0.0)
    for size, share in _shares(config).items():
        part = _evidence(breakdown).get(size)
        if part is None:
            found["unseen"] += share
        elif part.valid < UNSOLVED * part.n:
            found["unsolved"] += share
        elif part.valid > SOLVED * part.n:
            found["solved"] += share
    return EvidenceShares(**{name: min(share, 1.0) for name, share in found.items()})


def preserved_sizes(old: EnvConfig, new: EnvConfig) -> tuple[int, ...]:
    """Map sizes with data in both configs of which no knob (share, holes, waits) moved by more than 0.02."""
    moves = _moves(old, new)
    return tuple(
        size
        for size in _drawn_in_both(old, new)
        if all(
            abs(move) <= KEPT + _ROUNDING
            for move in (moves[size], new.sizes[size].hole_ratio - old.sizes[size].hole_ratio, new.sizes[size].wait_ratio - old.sizes[size].wait_ratio)
        )
    )


def worked_sizes(config: EnvConfig, changes: Mapping[int, Difference]) -> tuple[int, ...]:
    """Map sizes that had data and whose valid rate rose over the stage: the paired 95 % interval lies above 0."""
    return tuple(size for size, share in sorted(_shares(config).items()) if share > 0 and size in changes and changes[size].low > 0)


def signal_gain(old: EnvConfig, new: EnvConfig, breakdown: Breakdown) -> SignalGain | None:
    """Sum over sizes of (r'_s - r_s) g_s with the signal g_s = 4 p_s (1 - p_s), from -1 to 1.

    p (1 - p) is the variance of a right-or-wrong reward within a group of answers, without which a group-relative
    advantage is 0; the factor 4 makes it 1 at 50 % valid, where R-Zero (2508.05004) puts the most useful tasks, and 0
    at 0 % and 100 %. None if a size whose share moves was not evaluated.
    """
    moves, evidence = _moves(old, new), _evidence(breakdown)
    moved = {size: move for size, move in moves.items() if abs(move) > _ROUNDING}
    if not moved.keys() <= evidence.keys():
        return None
    value = low = high = 0.0
    for size, move in moved.items():
        least, greatest = _signal_bounds(evidence[size])
        value += move * _signal(evidence[size].valid_rate.value)
        low += move * (least if move > 0 else greatest)
        high += move * (greatest if move > 0 else least)
    return SignalGain(value=value, low=low, high=high)


def agreement(old: EnvConfig, new: EnvConfig, breakdown: Breakdown) -> float | None:
    """Whether the data moved to where the signal is, from -1 to 1.

    `signal_gain` / (m (max g - min g)), with m = half the L1 distance of the shares (the share that moved) and the
    extremes over all evaluated sizes: the mean signal of the sizes that the data went to minus that of the sizes
    it came from, in units of the spread. 1: all that moved went from the size with the least signal to the one with
    the most; -1: the other way round; 0: the signal made no difference. None if less than 1 % of the data moved, if
    all sizes have the same signal (all at 0 % or 100 %, say), or if `signal_gain` is None.
    """
    gain = signal_gain(old, new, breakdown)
    signals = [_signal(part.valid_rate.value) for part in _evidence(breakdown).values()]
    moved = sum(map(abs, _moves(old, new).values())) / 2
    if gain is None or moved < SMALLEST_MOVE - _ROUNDING or max(signals) - min(signals) <= _ROUNDING:
        return None
    return _clip(gain.value / (moved * (max(signals) - min(signals))))


def undone(earlier: EnvConfig, config: EnvConfig, proposed: EnvConfig) -> float | None:
    """How much of the edit that led to `config` the proposal takes back, from -1 to 1.

    -<e, f> / <e, e>, clipped, where e is the edit from `earlier` to `config` and f the one from `config` to `proposed`:
    vectors of the moves of all three knobs of all sizes, each divided by the knob's range (1, 0.5, 1). 1: all of it or
    more; 0: nothing, as when the config is kept; -1: the same edit again or more of it. None without an edit e: if its
    Euclidean length is at most 0.01.
    """
    edit, answer = _edit_vector(earlier, config), _edit_vector(config, proposed)
    length = sum(move * move for move in edit.values())
    if length <= SMALLEST_MOVE**2:
        return None
    return _clip(-sum(move * answer.get(knob, 0.0) for knob, move in edit.items()) / length)


def fell(change: Difference) -> bool:
    """Whether a rate dropped: the interval of its change lies below 0."""
    return change.high < 0


def _shares(config: EnvConfig) -> dict[int, float]:
    total = sum(knobs.data_ratio for knobs in config.sizes.values())
    return {size: knobs.data_ratio / total for size, knobs in config.sizes.items()}


def _moves(old: EnvConfig, new: EnvConfig) -> dict[int, float]:
    before, after = _shares(old), _shares(new)
    return {size: after.get(size, 0.0) - before.get(size, 0.0) for size in sorted(before.keys() | after.keys())}


def _drawn_in_both(old: EnvConfig, new: EnvConfig) -> list[int]:
    return [size for size in sorted(old.sizes.keys() & new.sizes.keys()) if min(old.sizes[size].data_ratio, new.sizes[size].data_ratio) > 0]


def _edit_vector(old: EnvConfig, new: EnvConfig) -> dict[tuple[int, str], float]:
    edit = {(size, "data_ratio"): move for size, move in _moves(old, new).items()}
    for size in _drawn_in_both(old, new):
        edit[size, "hole_ratio"] = (new.sizes[size].hole_ratio - old.sizes[size].hole_ratio) / MAX_HOLE_RATIO
        edit[size, "wait_ratio"] = new.sizes[size].wait_ratio - old.sizes[size].wait_ratio
    return edit


def _evidence(breakdown: Breakdown) -> dict[int, SizeBreakdown]:
    return {size: part for size, part in breakdown.sizes.items() if part.n}


def _signal(rate: float) -> float:
    return 4 * rate * (1 - rate)


def _signal_bounds(part: SizeBreakdown) -> tuple[float, float]:
    """Least and greatest signal of the valid rates within the interval."""
    rate = part.valid_rate
    ends = _signal(rate.low), _signal(rate.high)
    return min(ends), 1.0 if rate.low <= 0.5 <= rate.high else max(ends)


def _clip(value: float) -> float:
    return min(max(value, -1.0), 1.0) + 0.0  # never -0.0
