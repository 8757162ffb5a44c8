"""A package's transformation in its own process: what it makes of events, and what becomes of them
when it hangs or ends.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hedgerow.app.pipelines import join_pipelines
from hedgerow.lib.apart import Apart
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.foreign import CRASHED, HOST, TOOK_LONG, Foreign
from hedgerow.pipelines.foreign_host import KEPT
from hedgerow.pipelines.model import ComponentId, Family
from hedgerow.pipelines.transforming import CannotTransform, Transform
from tests.acceptance.test_components_verb import install
from tests.unit.pipelines.test_transform import event
from tests.unit.pipelines.world import RECORD, SEALER

PACKAGE = """
import os
import re

from hedgerow.pipelines.component import Component
from hedgerow.pipelines.model import Family

def transform(settings):
    if settings.get("broken"):
        raise KeyError("broken")
    def run(event):
        if event.event == "hang":
            re.match("(a+)+$", "a" * 60 + "b")
        if event.event == "end":
            os._exit(0)
        if event.event == "end once":
            try:
                os.mkdir(settings["mark"])
            except FileExistsError:
                return event
            os._exit(0)
        if event.event == "who":
            return event.having({"pid": os.getpid()})
        if event.event == "drop":
            return None
        if event.event == "interrupt":
            raise KeyboardInterrupt
        if event.event == "garbage":
            return 7
        if event.event == "same":
            return event
        return event.having({**event.properties, "by": settings["by"], "big": 2**70})
    return run

COMPONENT = Component(
    key="acme/apart",
    family=Family.TRANSFORMATION,
    name="Apart",
    description="Elsewhere.",
    version="0.1",
    transform=transform,
)
"""
KEY = "acme/apart"


@pytest.fixture(scope="module", autouse=True)
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    packages = tmp_path_factory.mktemp("packages")
    install(packages, "acme_apart", PACKAGE)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(packages))
        yield


@pytest.fixture(scope="module")
def foreign(package: None) -> Iterator[Foreign]:
    foreign = Foreign(Apart(HOST, start_s=120, answer_s=120))
    yield foreign
    foreign.close()


def why(transform: Transform, name: str) -> str:
    with pytest.raises(CannotTransform) as error:
        transform(event({"a": 1}, name))
    return str(error.value)


def test_events_go_there_and_come_back(foreign: Foreign) -> None:
    one, two = (foreign.transform(KEY, {"by": name}) for name in ("one", "two"))
    for transform, by in ((one, "one"), (two, "two"), (one, "one")):
        before = event({"a": {"ü": [1, None]}})
        after = transform(before)
        assert after == before.having({**before.properties, "by": by, "big": 2**70})
    same = event({"a": 1}, "same")
    assert one(same) is same
    assert one(event({}, "drop")) is None
    assert why(one, "garbage") == "The component answered with something that is no event"
    assert why(one, "interrupt") == "The component failed: KeyboardInterrupt"
    assert why(foreign.transform(KEY, {"broken": 1}), "seen") == "The component failed: KeyError"
    assert why(foreign.transform("acme/gone", {}), "seen") == "The component is not installed"


def test_what_was_forgotten_there_is_told_again(foreign: Foreign) -> None:
    first = foreign.transform(KEY, {"by": "first"})
    for _ in range(KEPT + 1):
        foreign.transform(KEY, {})(event({}, "drop"))
    after = first(event({}))
    assert after is not None
    assert after.properties["by"] == "first"


def test_one_that_ends_its_process_rests_and_the_others_go_on(foreign: Foreign) -> None:
    ends, other = (foreign.transform(KEY, {"by": name}) for name in ("ends", "other"))
    assert why(ends, "end") == CRASHED
    assert why(ends, "same") == CRASHED
    after = other(event({}))
    assert after is not None
    assert after.properties["by"] == "other"


def test_a_process_that_ended_by_chance_is_nobodys_fault(foreign: Foreign, tmp_path: Path) -> None:
    transform = foreign.transform(KEY, {"mark": str(tmp_path / "mark")})
    once = event({}, "end once")
    assert transform(once) is once


def test_what_is_tried_out_has_another_process_than_events() -> None:
    nowhere: Any = None
    component = Component(
        key=KEY,
        family=Family.TRANSFORMATION,
        name="Apart",
        description="Elsewhere.",
        version="0.1",
        transform=lambda _: lambda event: event,
    )
    id = ComponentId(5000)
    pipelines = join_pipelines(nowhere, SEALER)
    pipelines.catalogue.add({KEY: id}, [component], [])
    record = replace(RECORD, component_id=id, config={})
    try:
        processes = set()
        for transformations in (pipelines.transformations, pipelines.tried):
            step = transformations.step(record)
            assert step is not None
            after = step.transform(event({}, "who"))
            assert after is not None
            processes.add(after.properties["pid"])
        assert len(processes) == 2
        assert os.getpid() not in processes
    finally:
        pipelines.close()


def test_one_that_hangs_is_left_out_for_a_while() -> None:
    foreign = Foreign(Apart(HOST, start_s=120, answer_s=1))
    try:
        hangs = foreign.transform(KEY, {"by": "x"})
        assert why(hangs, "hang") == TOOK_LONG
        assert why(hangs, "same") == TOOK_LONG
    finally:
        foreign.close()
