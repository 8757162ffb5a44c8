"""A source that asks for patience is not taken for one that is silent."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from hedgerow.pipelines.imports import run
from hedgerow.pipelines.imports.model import Around, Portion
from hedgerow.pipelines.model import JobProblem
from hedgerow.projects.model import ProjectId

BOUND_S = 0.5


async def long(_seconds: float) -> None:
    await asyncio.sleep(1.5 * BOUND_S)


def around() -> Around:
    unused = cast(Any, None)
    return Around(
        project_id=ProjectId(1),
        http=unused,
        files=unused,
        queried=unused,
        is_finished=unused,
        aside=unused,
        sleep=long,
        clock=lambda: datetime(2026, 1, 1, tzinfo=UTC),
    )


async def test_what_it_asks_for_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PORTION_S", BOUND_S)

    async def patient(_: Mapping[str, Any], __: Any, around: Around) -> AsyncIterator[Portion]:
        await around.sleep(600)
        yield Portion(rows=(), cursor="there")

    async def silent(_: Mapping[str, Any], __: Any, ___: Around) -> AsyncIterator[Portion]:
        await asyncio.sleep(600)
        yield Portion(rows=(), cursor="never")

    assert [each.cursor async for each in run._read(patient, {}, None, around())] == ["there"]
    with pytest.raises(JobProblem, match="gave nothing"):
        _ = [each async for each in run._read(silent, {}, None, around())]
