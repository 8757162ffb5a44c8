"""What the only process that writes events knows of their uuids, so that it need not ask.

Almost every uuid is new, and finding out takes the engine longer the more events it has. A Bloom
filter of all that are stored tells so at once; only those it is unsure of are looked up. The latest
are remembered exactly, since a repeat mostly follows soon.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hedgerow.events.model import EventKey

Halves = npt.NDArray[np.uint64]

RECENT = 50_000
# 16 MiB are good for eight million events and of use up to thirty; 128 MiB for eight times that.
MIN_LOG2_BITS, MAX_LOG2_BITS = 27, 30
BITS_FOR_EACH = 16
UUID_BYTES = 16

# A pair of odd numbers for each of the four places of a uuid: multiplying and keeping the upper
# bits scatters even uuids that count upwards.
_FACTORS = np.random.default_rng(20260329).integers(
    0, 2**64, size=(4, 2), dtype=np.uint64
) | np.uint64(1)


class UuidMemory:
    def __init__(self, stored: int) -> None:
        """`stored` is how many uuids there are to begin with."""
        wanted = (2 * stored * BITS_FOR_EACH).bit_length()
        log2_bits = min(max(wanted, MIN_LOG2_BITS), MAX_LOG2_BITS)
        self._shift = np.uint64(64 - log2_bits)
        self._filter = np.zeros(1 << (log2_bits - 3), dtype=np.uint8)
        self._recent: dict[EventKey, None] = {}

    def learn_stored(self, uuids: bytes) -> None:
        """Take in uuids as the engine writes them: two little-endian halves of eight bytes."""
        self._mark(np.frombuffer(uuids, dtype="<u8").reshape(-1, 2))

    def expect(self, keys: Sequence[EventKey]) -> None:
        """Take in what is going to be stored: if that fails, nobody knows which of them are."""
        self._mark(_halves(keys))

    def learn(self, keys: Sequence[EventKey]) -> None:
        """Take in what was expected and is stored now."""
        self._recent.update(dict.fromkeys(keys))
        for oldest in list(self._recent)[: max(0, len(self._recent) - RECENT)]:
            del self._recent[oldest]

    def is_stored(self, key: EventKey) -> bool:
        """True is certain; False only means that it was not stored of late."""
        return key in self._recent

    def unsure(self, keys: Sequence[EventKey]) -> list[EventKey]:
        """Those that may be stored already. The others are certainly not."""
        held = np.ones(len(keys), dtype=bool)
        halves = _halves(keys)
        for factors in _FACTORS:
            byte, bit = self._place(halves, factors)
            held &= (self._filter[byte] & bit) != 0
        return [keys[index] for index in np.flatnonzero(held).tolist()]

    def forget(self) -> None:
        """Some were deleted. The filter may go on to be unsure of them."""
        self._recent.clear()

    def _mark(self, halves: Halves) -> None:
        for factors in _FACTORS:
            byte, bit = self._place(halves, factors)
            while len(byte):
                self._filter[byte] |= bit
                # Where two of them share a byte, one was overwritten by the other.
                lost = (self._filter[byte] & bit) == 0
                byte, bit = byte[lost], bit[lost]

    def _place(self, halves: Halves, factors: Halves) -> tuple[Halves, npt.NDArray[np.uint8]]:
        place = (halves[:, 0] * factors[0] + halves[:, 1] * factors[1]) >> self._shift
        bit = np.left_shift(np.uint8(1), (place & np.uint64(7)).astype(np.uint8))
        return place >> np.uint64(3), bit


def _halves(keys: Sequence[EventKey]) -> Halves:
    text = "".join(uuid for _, uuid in keys).replace("-", "")
    return np.frombuffer(bytes.fromhex(text), dtype=">u8").astype(np.uint64).reshape(-1, 2)
