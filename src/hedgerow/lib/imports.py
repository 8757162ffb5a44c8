"""Import modules on first use."""

import gc
import sys
from importlib import import_module
from types import ModuleType


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
