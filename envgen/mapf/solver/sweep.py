"""Joint plans of ranks inside their diagrams: all positions step by step, the last one as a set of cells.

The ranks are those in `picked`; loops run over their indices there.
"""

from numba import njit

from envgen.mapf.solver.bitboard import NONE, bit, lowest, neighbours
from envgen.mapf.solver.diagrams import allowed_cost, diagram_of, without_swap
from envgen.mapf.solver.memory import ANY_WAITS, FULL, LAYERS
from envgen.mapf.solver.positions import clear, read_key, slot_of
from envgen.mapf.solver.tables import pair_index


@njit
def sweep(m, waits, last, slots):
    """Whether the picked ranks can all be on their goals at the `last` step with at most `waits` waits.

    1 with `plans` filled, 0, or FULL if a step has too many positions for `slots`. The tables of pairs must
    be filled.
    """
    others = m.count - 1
    size = 0
    clear(m, slots)
    for rank in range(others):
        m.after[rank] = m.start[m.members[m.picked[rank]]]
    low, high = bit(m.start[m.members[m.picked[others]]])
    m.layer_begin[0], m.layer_begin[1] = 0, _enter(m, 0, 0, low, high)
    for step in range(1, last + 1):
        size = m.layer_begin[step]
        clear(m, slots)
        for entry in range(m.layer_begin[step - 1], m.layer_begin[step]):
            m.work += 1
            size = _follow(m, entry, size, step, waits)
            if size == FULL or m.work > m.work_limit:
                return FULL
        if size == m.layer_begin[step]:
            return 0
        m.layer_begin[step + 1] = size
    _walk_back(m, waits, last)
    return 1


@njit
def _enter(m, size, waited, low, high):
    """Add cells of the last rank to the entry of `m.after`; the number of entries after that, or FULL."""
    m.after[m.count - 1] = waited
    slot, seen = slot_of(m)
    if slot == FULL or size == LAYERS:
        return FULL
    if not seen:
        m.parents[slot] = size
        m.layer_keys[size] = m.keys[slot]
        m.layer_cells[size, 0], m.layer_cells[size, 1] = low, high
        return size + 1
    entry = m.parents[slot]
    m.layer_cells[entry, 0] |= low
    m.layer_cells[entry, 1] |= high
    return size


@njit
def _follow(m, entry, size, step, waits):
    """Enter all positions that follow an entry; the number of entries after that, or FULL."""
    others = m.count - 1
    read_key(m, m.layer_keys[entry])
    waited = m.before[others]
    rank = 0
    _list_targets(m, 0, step)
    while rank >= 0:
        low, high = m.choices[rank, 0], m.choices[rank, 1]
        if (low | high) == NONE:
            rank -= 1
            continue
        cell = lowest(low, high)
        bit_low, bit_high = bit(cell)
        m.choices[rank, 0], m.choices[rank, 1] = low & ~bit_low, high & ~bit_high
        m.after[rank] = cell
        if rank < others - 1:
            rank += 1
            _list_targets(m, rank, step)
            continue
        size = _enter_last(m, entry, size, step, waited, waits)
        if size == FULL:
            return FULL
    return size


@njit
def _past_table(m, earlier, rank, step, low, high):
    """The cells from which a rank can still finish with an earlier rank, which goes where `m.after` says."""
    pair = pair_index(m.picked[earlier], m.picked[rank])
    if m.meets[pair] and step <= m.table_ends[pair]:
        low &= m.finish[pair, step, m.after[earlier], 0]
        high &= m.finish[pair, step, m.after[earlier], 1]
    return low, high


@njit
def _list_targets(m, rank, step):
    """List the cells that a rank may enter at a step, past the moves of the ranks before it."""
    before = m.before[rank]
    low, high = bit(before)
    diagram = diagram_of(m, m.picked[rank])
    if step <= allowed_cost(m, m.picked[rank]):
        near_low, near_high = neighbours(m, low, high)
        if not m.strict:
            near_low |= low
            near_high |= high
        low = near_low & diagram[step, 0]
        high = near_high & diagram[step, 1]
    for earlier in range(rank):
        low, high = _past_table(m, earlier, rank, step, low, high)
        if m.after[earlier] == before:
            gone_low, gone_high = bit(m.before[earlier])
            low &= ~gone_low
            high &= ~gone_high
    m.choices[rank, 0], m.choices[rank, 1] = low, high


@njit
def _enter_last(m, entry, size, step, waited, waits):
    """Enter where the last may be at a step, the others as `m.after` says, by waits if these are limited."""
    others = m.count - 1
    counted, diagram = waits != ANY_WAITS, diagram_of(m, m.picked[others])
    for rank in range(others if counted else 0):
        waited += m.after[rank] == m.before[rank] and step <= allowed_cost(m, m.picked[rank])
    moving = step <= allowed_cost(m, m.picked[others])
    low, high = m.layer_cells[entry, 0], m.layer_cells[entry, 1]
    for staying in range(2 if counted and moving else 1):
        if counted and waited + staying > waits:
            break
        near_low, near_high = low, high
        moves = moving and staying == 0
        if moves:
            near_low, near_high = neighbours(m, low, high)
            if not (m.strict or counted):
                near_low |= low
                near_high |= high
        if moving:
            near_low &= diagram[step, 0]
            near_high &= diagram[step, 1]
        for rank in range(others):
            near_low, near_high = _past_table(m, rank, others, step, near_low, near_high)
            if moves:
                near_low, near_high = without_swap(
                    m, low, high, near_low, near_high, m.before[rank], m.after[rank]
                )
        if (near_low | near_high) != NONE:
            size = _enter(m, size, waited + staying, near_low, near_high)
            if size == FULL:
                return FULL
    return size


@njit
def _walk_back(m, waits, last):
    """Fill `plans` from the layers, backwards."""
    others = m.count - 1
    for rank in range(m.count):
        m.plans[m.picked[rank], last] = m.home[m.picked[rank]]
    read_key(m, m.layer_keys[m.layer_begin[last]])
    spent = m.before[others]
    for step in range(last, 0, -1):
        for entry in range(m.layer_begin[step - 1], m.layer_begin[step]):
            read_key(m, m.layer_keys[entry])
            waited = m.before[others]
            cell = _last_cell(m, entry, step, waits == ANY_WAITS, spent - waited)
            if cell >= 0:
                spent, m.before[others] = waited, cell
                break
        for rank in range(m.count):
            m.plans[m.picked[rank], step - 1] = m.before[rank]


@njit
def _last_cell(m, entry, step, free, waits):
    """A cell of the last rank in an entry from which `plans` goes on with so many waits, or any if `free`."""
    others = m.count - 1
    low, high = m.layer_cells[entry, 0], m.layer_cells[entry, 1]
    while (low | high) != NONE:
        cell = lowest(low, high)
        bit_low, bit_high = bit(cell)
        low &= ~bit_low
        high &= ~bit_high
        m.before[others] = cell
        stays = _stays(m, step)
        if stays >= 0 and (free or waits == stays):
            return cell
    return -1


@njit
def _stays(m, step):
    """Waits if the members go from `m.before` to where `plans` has them at a step; -1 if they cannot."""
    waits = 0
    for rank in range(m.count):
        before, after = m.before[rank], m.plans[m.picked[rank], step]
        moving, near = step <= allowed_cost(m, m.picked[rank]), before == after
        waits += near and moving
        for way in range(m.degree[before] if moving else 0):
            near = near or m.near[before, way] == after
        if not near:
            return -1
        for earlier in range(rank):
            swap = m.before[earlier] == after and m.plans[m.picked[earlier], step] == before
            if m.before[earlier] == before or swap:
                return -1
    return waits
