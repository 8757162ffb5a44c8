"""Pauses of the garbage collector."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType


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


def import_without_gc(name: str) -> ModuleType:
    """Import a module without collecting garbage: imports create many objects and free few, and
    collecting them takes a sixth of the time. They are frozen, or the next collection would take
    that time."""
    if name in sys.modules:
        return sys.modules[name]
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        if is_collecting:
            gc.enable()
