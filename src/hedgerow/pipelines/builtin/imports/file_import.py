"""Files: imports events from CSV, JSON Lines or Parquet files, on disk, on the web or in S3."""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from hedgerow.pipelines.destinations.s3 import S3_ACCESS_SETTINGS
from hedgerow.pipelines.imports.files import SourceFile, check_source, list_source_files
from hedgerow.pipelines.imports.mapping import check_mapping
from hedgerow.pipelines.imports.reading import PreparedBatch
from hedgerow.pipelines.imports.rows import AUTO, CSV, JSONL, PARQUET, detect_format
from hedgerow.pipelines.imports.schedule import check_schedule
from hedgerow.plugin.component import Component, Family, SettingField, Settings
from hedgerow.plugin.imports import ImportBatch, ImportContext, JobError
from hedgerow.plugin.presets import (
    IMPORT_JOB,
    MAPPING_SETTING,
    SCHEDULE_SETTING,
    TEST_CONNECTION_JOB,
    file_format_setting,
)


def check(settings: Settings) -> None:
    check_source(settings)
    check_mapping(settings.get("mapping") or {})
    check_schedule(settings.get("schedule") or "")


async def read(
    settings: Mapping[str, Any], cursor: Any, ctx: ImportContext
) -> AsyncIterator[ImportBatch]:
    """Read file by file. Files that were already imported in the same version are skipped."""
    files = 0
    async for file in list_source_files(settings, ctx):
        format = detect_format(file.name, settings["format"])
        if format is None:
            continue
        if file.version and await ctx.is_finished(file.file_version):
            continue
        files += 1
        async for batch in _read_file(file, format, cursor, files, ctx):
            yield batch


async def _read_file(
    file: SourceFile, format: str, cursor: Any, number: int, ctx: ImportContext
) -> AsyncIterator[ImportBatch]:
    is_begun = bool(cursor) and (cursor["name"], cursor["version"]) == (file.name, file.version)
    position = cursor["position"] if is_begun and file.version else None
    details = {"file": file.name, "files": number}
    async with (
        file.open() as opened,
        aclosing(ctx.reader.read_file(opened, file.name, format, position)) as pages,
    ):
        async for page in pages:
            cursor = {"name": file.name, "version": file.version, "position": page.position}
            is_finished = page.is_last and bool(file.version)
            yield PreparedBatch(
                prepared=page.rows,
                cursor=cursor,
                total=page.total,
                details=details,
                finished=[file.file_version] if is_finished else (),
            )


async def check_connection(settings: Mapping[str, Any], ctx: ImportContext) -> None:
    async for file in list_source_files(settings, ctx):
        if detect_format(file.name, settings["format"]) is not None:
            return
    raise JobError("The source has no CSV, JSON Lines or Parquet file.")


COMPONENT = Component(
    key="hedgerow/file-import",
    family=Family.IMPORT_APP,
    name="Files",
    description="Imports events from CSV, JSON lines or Parquet files.",
    version="1.0.0",
    settings=(
        SettingField(
            key="source",
            name="Source",
            required=True,
            # The keys are sent to `endpoint` only.
            is_address=False,
            hint="A file or folder below the project's import folder, https://…, or "
            "s3://bucket/prefix.",
        ),
        file_format_setting(AUTO, CSV, JSONL, PARQUET),
        MAPPING_SETTING,
        SCHEDULE_SETTING,
        *S3_ACCESS_SETTINGS,
    ),
    jobs=(IMPORT_JOB, TEST_CONNECTION_JOB),
    check=check,
    read=read,
    check_connection=check_connection,
)
