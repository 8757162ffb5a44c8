"""The sandbox: transformations of packages in a worker process that hangs or crashes."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hedgerow.app.pipelines import build_pipelines
from hedgerow.lib.workers.process import WorkerProcess
from hedgerow.pipelines.model import ComponentId
from hedgerow.pipelines.transformations.sandbox import (
    CRASH_REASON,
    HOST_MODULE,
    TIMEOUT_REASON,
    Sandbox,
)
from hedgerow.pipelines.transformations.sandbox_host import MAX_TRANSFORMS
from hedgerow.plugin.component import Component, Family
from hedgerow.plugin.transform import Transform, TransformError
from tests.acceptance.test_components_command import install
from tests.unit.pipelines.sample_components import CIPHER, RECORD
from tests.unit.pipelines.transformations.test_chain import event

PACKAGE = """
import os
import re

from hedgerow.plugin import Component, Family

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
            return event.with_properties({"pid": os.getpid()})
        if event.event == "drop":
            return None
        if event.event == "interrupt":
            raise KeyboardInterrupt
        if event.event == "garbage":
            return 7
        if event.event == "same":
            return event
        return event.with_properties({**event.properties, "by": settings["by"], "big": 2**70})
    return run

COMPONENT = Component(
    key="acme/sandboxed",
    family=Family.TRANSFORMATION,
    name="Sandboxed",
    description="Runs in the sandbox.",
    version="0.1",
    transform=transform,
)
"""
KEY = "acme/sandboxed"


@pytest.fixture(scope="module", autouse=True)
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    packages = tmp_path_factory.mktemp("packages")
    install(packages, "acme_sandboxed", PACKAGE)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(packages))
        yield


@pytest.fixture(scope="module")
def sandbox(package: None) -> Iterator[Sandbox]:
    sandbox = Sandbox(WorkerProcess(HOST_MODULE, start_timeout_s=120, response_timeout_s=120))
    yield sandbox
    sandbox.close()


def failure_reason(transform: Transform, name: str) -> str:
    with pytest.raises(TransformError) as error:
        transform(event({"a": 1}, name))
    return str(error.value)


def test_events_are_transformed_in_the_worker_process(sandbox: Sandbox) -> None:
    one, two = (sandbox.transform(KEY, {"by": name}) for name in ("one", "two"))
    for transform, by in ((one, "one"), (two, "two"), (one, "one")):
        before = event({"a": {"ü": [1, None]}})
        after = transform(before)
        assert after == before.with_properties({**before.properties, "by": by, "big": 2**70})
    same = event({"a": 1}, "same")
    assert one(same) is same
    assert one(event({}, "drop")) is None
    assert failure_reason(one, "garbage") == "The component returned something that is not an event"
    assert failure_reason(one, "interrupt") == "The component failed: KeyboardInterrupt"
    assert (
        failure_reason(sandbox.transform(KEY, {"broken": 1}), "seen")
        == "The component failed: KeyError"
    )
    assert (
        failure_reason(sandbox.transform("acme/gone", {}), "seen")
        == "The component is not installed"
    )


def test_a_dropped_transformation_is_prepared_again(sandbox: Sandbox) -> None:
    first = sandbox.transform(KEY, {"by": "first"})
    for _ in range(MAX_TRANSFORMS + 1):
        sandbox.transform(KEY, {})(event({}, "drop"))
    after = first(event({}))
    assert after is not None
    assert after.properties["by"] == "first"


def test_a_crashing_transformation_is_suspended_alone(sandbox: Sandbox) -> None:
    ends, other = (sandbox.transform(KEY, {"by": name}) for name in ("ends", "other"))
    assert failure_reason(ends, "end") == CRASH_REASON
    assert failure_reason(ends, "same") == CRASH_REASON
    after = other(event({}))
    assert after is not None
    assert after.properties["by"] == "other"


def test_a_single_crash_is_retried(sandbox: Sandbox, tmp_path: Path) -> None:
    transform = sandbox.transform(KEY, {"mark": str(tmp_path / "mark")})
    once = event({}, "end once")
    assert transform(once) is once


def test_previews_use_another_process_than_events() -> None:
    no_database: Any = None
    component = Component(
        key=KEY,
        family=Family.TRANSFORMATION,
        name="Sandboxed",
        description="Runs in the sandbox.",
        version="0.1",
        transform=lambda _: lambda event: event,
    )
    id = ComponentId(5000)
    pipelines = build_pipelines(no_database, CIPHER)
    pipelines.catalogue.add({KEY: id}, [component], [])
    record = replace(RECORD, component_id=id, config={})
    try:
        processes = set()
        for transformations in (pipelines.transformations, pipelines.preview_transformations):
            step = transformations.build_step(record)
            assert step is not None
            after = step.transform(event({}, "who"))
            assert after is not None
            processes.add(after.properties["pid"])
        assert len(processes) == 2
        assert os.getpid() not in processes
    finally:
        pipelines.close()


def test_a_hanging_transformation_is_suspended() -> None:
    sandbox = Sandbox(WorkerProcess(HOST_MODULE, start_timeout_s=120, response_timeout_s=1))
    try:
        hangs = sandbox.transform(KEY, {"by": "x"})
        assert failure_reason(hangs, "hang") == TIMEOUT_REASON
        assert failure_reason(hangs, "same") == TIMEOUT_REASON
    finally:
        sandbox.close()
