"""The heap of glibc, which Python uses for everything that is larger than 512 bytes."""

import ctypes

# The event loop has a heap of its own, all other threads share one.
HEAP_COUNT = 2
# Larger blocks go back to the system when they are freed.
MAX_HEAP_BLOCK_BYTES = 256 << 10
MAX_FREE_BYTES = 1 << 20
# The numbers of these parameters in malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


def limit_free_memory() -> None:
    """Let glibc give freed memory back. By default each thread has its own heap, up to eight for
    each core, and none can use what another has freed; and once a large block was freed, others of
    its size, such as bodies, leave gaps in the heaps. A process then grows for hours. Call this
    before threads are started. Does nothing without glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, HEAP_COUNT)
        mallopt(_M_MMAP_THRESHOLD, MAX_HEAP_BLOCK_BYTES)
        mallopt(_M_TRIM_THRESHOLD, MAX_FREE_BYTES)
