import gc
import sys
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from hedgerow.lib.garbage import import_without_gc

NAME = "hedgerow_test_module"


class RecordingLoader(Loader):
    def __init__(self) -> None:
        self.was_collecting: list[bool] = []

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name == NAME else None

    def exec_module(self, module: ModuleType) -> None:
        self.was_collecting.append(gc.isenabled())


def test_a_module_is_imported_once_without_collecting(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = RecordingLoader()
    monkeypatch.setattr(sys, "meta_path", [loader])
    frozen = gc.get_freeze_count()
    try:
        imported = import_without_gc(NAME)
        assert gc.get_freeze_count() > frozen
        assert import_without_gc(NAME) is imported
    finally:
        sys.modules.pop(NAME)
        gc.unfreeze()
    assert loader.was_collecting == [False]
    assert gc.isenabled()
