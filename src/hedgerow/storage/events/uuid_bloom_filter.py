"""A Bloom filter of stored event UUIDs, for the single process that writes to chDB.

Almost every UUID is new, and checking that in the engine takes longer the more events it holds.
Only UUIDs that the filter may contain are looked up. The most recent ones are also kept exactly,
because duplicates usually follow soon.
"""

from collections.abc import Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt
from clickhouse_connect.driver.client import Client

from hedgerow.events.model import EventKey
from hedgerow.storage.events.clickhouse import fetch_rows
from hedgerow.storage.events.schema import TABLE

UuidHalves = npt.NDArray[np.uint64]

# How many bytes of UUIDs are read at a time when the filter is loaded.
UUID_READ_BYTES = 16 << 18
RECENT_KEYS = 50_000
# 16 MiB suit eight million events and help up to thirty million; 128 MiB eight times as many.
MIN_LOG2_BITS, MAX_LOG2_BITS = 27, 30
BITS_PER_UUID = 16
UUID_BYTES = 16

# A pair of odd factors for each of the four bits of a UUID. Multiply-shift hashing spreads even
# sequential UUIDs.
_HASH_FACTORS = np.random.default_rng(20260329).integers(
    0, 2**64, size=(4, 2), dtype=np.uint64
) | np.uint64(1)


class UuidBloomFilter:
    def __init__(self, stored: int) -> None:
        """`stored` is the initial number of UUIDs."""
        wanted = (2 * stored * BITS_PER_UUID).bit_length()
        log2_bits = min(max(wanted, MIN_LOG2_BITS), MAX_LOG2_BITS)
        self._shift = np.uint64(64 - log2_bits)
        self._filter = np.zeros(1 << (log2_bits - 3), dtype=np.uint8)
        self._recent: dict[EventKey, None] = {}

    def add_stored(self, uuids: bytes) -> None:
        """Add UUIDs in the engine's format: two little-endian halves of eight bytes."""
        self._set_bits(np.frombuffer(uuids, dtype="<u8").reshape(-1, 2))

    def add_pending(self, keys: Sequence[EventKey]) -> None:
        """Add keys before they are stored: after a failed insert it is unknown which are stored."""
        self._set_bits(_split_uuids(keys))

    def confirm_stored(self, keys: Sequence[EventKey]) -> None:
        """Remember pending keys as stored."""
        self._recent.update(dict.fromkeys(keys))
        surplus = max(0, len(self._recent) - RECENT_KEYS)
        for oldest in list(islice(self._recent, surplus)):
            del self._recent[oldest]

    def is_recent(self, key: EventKey) -> bool:
        """True means stored; False only means not stored recently."""
        return key in self._recent

    def filter_possible(self, keys: Sequence[EventKey]) -> list[EventKey]:
        """Return the keys that may be stored. The others certainly are not."""
        is_possible = np.ones(len(keys), dtype=bool)
        halves = _split_uuids(keys)
        for factors in _HASH_FACTORS:
            byte, bit = self._locate_bits(halves, factors)
            is_possible &= (self._filter[byte] & bit) != 0
        return [keys[index] for index in np.flatnonzero(is_possible).tolist()]

    def clear_recent(self) -> None:
        """Call this after a deletion. The filter may still report deleted keys as possible."""
        self._recent.clear()

    def _set_bits(self, halves: UuidHalves) -> None:
        for factors in _HASH_FACTORS:
            byte, bit = self._locate_bits(halves, factors)
            while len(byte):
                self._filter[byte] |= bit
                # If two keys share a byte, the assignment kept only one: set the others again.
                lost = (self._filter[byte] & bit) == 0
                byte, bit = byte[lost], bit[lost]

    def _locate_bits(
        self, halves: UuidHalves, factors: UuidHalves
    ) -> tuple[UuidHalves, npt.NDArray[np.uint8]]:
        position = (halves[:, 0] * factors[0] + halves[:, 1] * factors[1]) >> self._shift
        bit = np.left_shift(np.uint8(1), (position & np.uint64(7)).astype(np.uint8))
        return position >> np.uint64(3), bit


def load_uuids(client: Client, parts: str) -> UuidBloomFilter:
    """Return a filter with the UUIDs of some parts."""
    # The maximum reads all of them, so that an error because of damage comes with its code. In the
    # middle of a result an error only breaks the connection.
    sql = f"SELECT count() AS count, max(uuid) FROM {TABLE} WHERE {parts}"  # noqa: S608
    (row,) = fetch_rows(client, sql, {})
    memory = UuidBloomFilter(row["count"])
    sql = f"SELECT uuid FROM {TABLE} WHERE {parts}"  # noqa: S608
    with client.raw_stream(sql, fmt="RowBinary") as stream:
        while uuids := stream.read(UUID_READ_BYTES):
            memory.add_stored(uuids)
    return memory


def _split_uuids(keys: Sequence[EventKey]) -> UuidHalves:
    text = "".join(uuid for _, uuid in keys).replace("-", "")
    return np.frombuffer(bytes.fromhex(text), dtype=">u8").astype(np.uint64).reshape(-1, 2)
