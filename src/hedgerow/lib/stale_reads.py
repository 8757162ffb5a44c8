"""Whether what the current request has read may lack events that were accepted before it."""

from contextvars import ContextVar

# Tells the client.
STALE_HEADER = b"x-hedgerow-stale"


class Reads:
    """What is known about the reads of a request."""

    __slots__ = ("are_stale",)

    def __init__(self) -> None:
        self.are_stale = False


_current: ContextVar[Reads | None] = ContextVar("reads", default=None)


def watch_reads() -> Reads:
    """Return what is known about the reads of this task, and of the tasks that it starts."""
    reads = Reads()
    _current.set(reads)
    return reads


def report_stale_read() -> None:
    """Record that the current request reads without waiting any longer for earlier events."""
    reads = _current.get()
    if reads is not None:
        reads.are_stale = True
