"""Timeouts of import sources."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from hedgerow.pipelines.config import MASK
from hedgerow.pipelines.imports import run
from hedgerow.pipelines.secret_mask import SecretMask
from hedgerow.plugin.imports import BadRow, ImportBatch, ImportContext, JobError
from hedgerow.projects.model import ProjectId

BOUND_S = 0.5


async def long(_seconds: float) -> None:
    await asyncio.sleep(1.5 * BOUND_S)


def ctx() -> ImportContext:
    unused = cast(Any, None)
    return ImportContext(
        project_id=ProjectId(1),
        http=unused,
        files=unused,
        database=unused,
        is_finished=unused,
        run_in_thread=unused,
        sleep=long,
        clock=lambda: datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_bad_rows_hide_the_secrets_of_the_record() -> None:
    secret = "postgresql://reader:hush-hush@db/x"
    counts = run.ImportCounts({}, SecretMask([secret]))
    reason = "." * (run.TEXT_MAX - 20)
    rows = [
        BadRow(location=f"row 1 of {secret}", reason="hush-hush"),
        BadRow(location="row 2", reason=reason + secret),
    ]
    lines = counts.add_bad_rows(2, rows)
    assert [each["place"] for each in counts.samples] == [f"row 1 of {MASK}", "row 2"]
    shown = str([counts.samples, lines])
    assert "hush" not in shown
    assert "reader" not in shown


async def test_requested_wait_does_not_count_as_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "BATCH_TIMEOUT_S", BOUND_S)

    async def patient(
        _: Mapping[str, Any], __: Any, ctx: ImportContext
    ) -> AsyncIterator[ImportBatch]:
        await ctx.sleep(600)
        yield ImportBatch(rows=(), cursor="there")

    async def silent(
        _: Mapping[str, Any], __: Any, ___: ImportContext
    ) -> AsyncIterator[ImportBatch]:
        await asyncio.sleep(600)
        yield ImportBatch(rows=(), cursor="never")

    assert [each.cursor async for each in run._read_source(patient, {}, None, ctx())] == ["there"]
    with pytest.raises(JobError, match="sent nothing complete"):
        _ = [each async for each in run._read_source(silent, {}, None, ctx())]
