"""Pages whose contents go elsewhere before the next step: recorded, handed over and counted."""

from __future__ import annotations

from octavo.core.schedule import MoveKind, PageMove


class PageMoves:
    """In the order in which they must be done. `counts` are totals since the start."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(MoveKind, 0)
        self._moves: list[PageMove] = []

    def add(self, kind: MoveKind, source: int, target: int) -> None:
        self._moves.append(PageMove(kind, source, target))
        self.counts[kind] += 1

    def take(self) -> list[PageMove]:
        """Those added since this was last asked."""
        moves, self._moves = self._moves, []
        return moves
