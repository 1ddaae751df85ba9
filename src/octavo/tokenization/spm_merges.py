"""Recovers the merges that a SentencePiece BPE vocabulary implies. Knows no file and no text.

SentencePiece joins any two neighbours whose concatenation is a piece, best score first. A list of
ranked pairs says the same if it holds every way to cut every piece into two pieces. A vocabulary of
262k pieces has 1.5 million cuts; they are looked up all at once, by a hash of every substring.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_BASE = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that it has an inverse modulo 2^64."""
_TABLE_BITS = 22
_SHIFT = np.uint64(64 - _TABLE_BITS)

Ids = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]


def merges_by_score(
    pieces: list[str], results: npt.NDArray[np.bool_], scores: npt.NDArray[np.float64]
) -> list[tuple[str, str]]:
    """Pairs of pieces whose concatenation is a piece, best score first, then longer left part.

    pieces: [n]; results: bool [n], which pieces a merge may yield; scores: float64 [n].
    """
    lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
    whole, left, right = _all_cuts(pieces, lengths)
    wanted = results[whole]
    whole, left, right = whole[wanted], left[wanted], right[wanted]
    order = np.lexsort((-lengths[right], -lengths[left], -scores[whole]))
    strings = np.array(pieces, dtype=object)
    return list(zip(strings[left[order]].tolist(), strings[right[order]].tolist(), strict=True))


def _all_cuts(pieces: list[str], lengths: Ids) -> tuple[Ids, Ids, Ids]:
    """(id of the whole, of its left part, of its right part) of every cut into two pieces.

    A false match of two hashes cannot slip through: the tokenizer refuses a merge whose
    concatenation is no piece.
    """
    prefix, inverse = _prefix_sums("".join(pieces))
    starts = np.cumsum(lengths) - lengths
    ends = starts + lengths
    hashes = (prefix[ends] - prefix[starts]) * inverse[starts]
    find = _Finder(hashes)

    owner = np.repeat(np.arange(len(pieces)), lengths)
    cut = np.arange(len(owner))
    cut = cut[cut != starts[owner]]
    owner = owner[cut]
    left_hash = (prefix[cut] - prefix[starts[owner]]) * inverse[starts[owner]]
    maybe = find.maybe(left_hash)
    cut, owner, left_hash = cut[maybe], owner[maybe], left_hash[maybe]
    right_hash = (prefix[ends[owner]] - prefix[cut]) * inverse[cut]
    maybe = find.maybe(right_hash)
    left, right = find.ids(left_hash[maybe]), find.ids(right_hash[maybe])
    found = (left >= 0) & (right >= 0)
    return owner[maybe][found], left[found], right[found]


def _prefix_sums(text: str) -> tuple[Hashes, Hashes]:
    """prefix[i] = sum of text[j] * base^(j+1) for j < i, and base^-i, modulo 2^64: [n + 1] each.

    The hash of text[a:b] is (prefix[b] - prefix[a]) * inverse[a]: the same wherever it stands.
    """
    characters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    powers = _powers(_BASE, len(characters) + 1)
    terms = characters.astype(np.uint64) * powers[1:]
    prefix = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return prefix, _powers(np.uint64(pow(int(_BASE), -1, 1 << 64)), len(characters) + 1)


def _powers(base: np.uint64, count: int) -> Hashes:
    powers = np.full(count, base, np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers)


class _Finder:
    """From a hash to an id: a bit table says no quickly, a binary search says which."""

    def __init__(self, hashes: Hashes) -> None:
        self._order = np.argsort(hashes, kind="stable")
        self._sorted = hashes[self._order]
        self._present = np.zeros(1 << _TABLE_BITS, np.bool_)
        self._present[hashes >> _SHIFT] = True

    def maybe(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """False where there is certainly no such hash."""
        found: npt.NDArray[np.bool_] = self._present[hashes >> _SHIFT]
        return found

    def ids(self, hashes: Hashes) -> Ids:
        """The id of each hash, -1 where there is none."""
        place = np.minimum(np.searchsorted(self._sorted, hashes), len(self._sorted) - 1)
        return np.where(self._sorted[place] == hashes, self._order[place], -1)
