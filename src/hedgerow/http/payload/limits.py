"""Limits on what a body may unpack and parse to, checked before Python objects exist."""

import msgspec

from hedgerow.errors import TooLarge

MIB = 1024 * 1024


class PayloadLimits(msgspec.Struct, frozen=True, kw_only=True):
    """`max_objects` counts objects and lists, `max_values` the commas between values: small values
    need many times their length in memory. A body, and any beginning of it, may unpack to
    `max_ratio` times its size, and to `free_bytes` at any ratio; 0 means no ratio."""

    max_unpacked_bytes: int
    max_objects: int
    max_values: int
    max_ratio: int = 0
    free_bytes: int = 0

    def for_body(self, size: int) -> "PayloadLimits":
        """Return the limits of a body of `size` bytes, with its ratio applied."""
        if not self.max_ratio:
            return self
        allowed = min(self.max_unpacked_bytes, max(self.free_bytes, self.max_ratio * size))
        return msgspec.structs.replace(self, max_unpacked_bytes=allowed)

    def check_ratio(self, packed: int, unpacked: int) -> None:
        """Raises TooLarge if the data so far unpacked to too many times its size."""
        if self.max_ratio and unpacked > self.free_bytes and unpacked > self.max_ratio * packed:
            raise TooLarge(
                f"Request body unpacks to more than {self.max_ratio} times its size. Send fewer "
                "events in each request."
            )


# What the event loop parses itself: about 10 ms for the worst body.
INLINE_LIMITS = PayloadLimits(max_unpacked_bytes=256 * 1024, max_objects=2_000, max_values=20_000)
# The loop receives the result as Python objects, so only long texts may exceed the inline limits.
DECIDE_LIMITS = PayloadLimits(max_unpacked_bytes=MIB, max_objects=2_000, max_values=20_000)
# Events with their own uuids and times compress to a twentieth, identical ones to a few hundredths.
CAPTURE_LIMITS = PayloadLimits(
    max_unpacked_bytes=100 * MIB,
    max_objects=600_000,
    max_values=5_000_000,
    max_ratio=200,
    free_bytes=4 * MIB,
)
# For a body whose key is not in its first or last bytes. The largest batch of an SDK has 5 MiB.
UNIDENTIFIED_LIMITS = PayloadLimits(
    max_unpacked_bytes=10 * MIB,
    max_objects=50_000,
    max_values=500_000,
    max_ratio=100,
    free_bytes=MIB,
)
MAX_EVENTS = 200_000
# Of a batch that the event loop parses itself.
MAX_INLINE_EVENTS = 1_000
