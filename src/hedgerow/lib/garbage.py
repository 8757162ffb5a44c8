"""Pauses of the garbage collector."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


class CollectionPause:
    """Pauses collections while many objects are created that stay. A full collection scans all of
    them while no thread can run: 0.3 s for a million objects."""

    def __init__(self) -> None:
        self._blocks = 0
        self._was_enabled = False

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Do not collect during the block. Blocks of several tasks may overlap."""
        if self._blocks == 0:
            self._was_enabled = gc.isenabled()
            gc.disable()
        self._blocks += 1
        try:
            yield
        finally:
            self._blocks -= 1
            if self._blocks == 0 and self._was_enabled:
                gc.enable()


def exempt_existing_objects() -> None:
    """Never scan the present objects again. They are still freed when nothing refers to them,
    unless they refer to each other."""
    gc.freeze()
