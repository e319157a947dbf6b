"""A board's free cells as one integer, bit r * (size + 1) + c, with one pad column so that shifts never wrap."""

from collections.abc import Iterator

from envgen.problem import Cell


class Grid:
    """Free cells of a board and the two operations that the search needs: spread and distances."""

    def __init__(self, size: int, holes: tuple[Cell, ...] | list[Cell]) -> None:
        self.size = size
        self.stride = size + 1
        free = 0
        for row in range(size):
            free |= ((1 << size) - 1) << (row * self.stride)
        for cell in holes:
            free &= ~(1 << self.index(cell))
        self.free = free

    def index(self, cell: Cell) -> int:
        """Bit index of a cell."""
        return cell[0] * self.stride + cell[1]

    def cell(self, index: int) -> Cell:
        """Cell of a bit index."""
        return divmod(index, self.stride)

    def neighbours(self, cells: int) -> int:
        """Free cells next to any of `cells` (a cell counts only if it is a neighbour of another)."""
        return (cells << 1 | cells >> 1 | cells << self.stride | cells >> self.stride) & self.free

    def layers(self, source: int) -> list[int]:
        """Breadth-first layers: element d holds the cells at distance d from bit index `source`."""
        frontier = seen = 1 << source
        layers = []
        while frontier:
            layers.append(frontier)
            frontier = self.neighbours(frontier) & ~seen
            seen |= frontier
        return layers

    def distances(self, source: int) -> dict[int, int]:
        """Distance in moves from bit index `source` to every reachable bit index."""
        return {index: distance for distance, layer in enumerate(self.layers(source)) for index in bits(layer)}


def bits(word: int) -> Iterator[int]:
    """Indices of the set bits, lowest first."""
    while word:
        low = word & -word
        yield low.bit_length() - 1
        word ^= low
