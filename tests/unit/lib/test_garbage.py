import gc

import pytest

from hedgerow.lib.garbage import CollectionPause


def test_overlapping_pauses_end_with_the_last_one() -> None:
    pause = CollectionPause()
    one, two = pause.hold(), pause.hold()
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    assert not gc.isenabled()
    two.__exit__(None, None, None)
    assert gc.isenabled()


def test_pause_ends_after_an_error_and_leaves_a_disabled_collector_disabled() -> None:
    pause = CollectionPause()
    with pytest.raises(ValueError, match="x"), pause.hold():
        raise ValueError("x")
    assert gc.isenabled()
    gc.disable()
    try:
        with pause.hold():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
