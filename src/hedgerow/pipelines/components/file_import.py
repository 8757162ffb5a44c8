"""Files: events from CSV, JSON lines or Parquet, on disk, on the web or in S3."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from hedgerow.pipelines.component import Component, SettingField, Settings
from hedgerow.pipelines.components.fields import (
    MAPPING,
    RUN_IMPORT,
    S3_ACCESS,
    SCHEDULE,
    TEST_CONNECTION,
    file_format,
)
from hedgerow.pipelines.imports.files import SourceFile, check_source, source_files
from hedgerow.pipelines.imports.mapping import check_mapping
from hedgerow.pipelines.imports.model import Around, Portion
from hedgerow.pipelines.imports.rows import AUTO, CSV, JSONL, PARQUET, format_of, portions
from hedgerow.pipelines.imports.schedule import check_schedule
from hedgerow.pipelines.model import Family, JobProblem


def check(settings: Settings) -> None:
    check_source(settings)
    check_mapping(settings.get("mapping") or {})
    check_schedule(settings.get("schedule") or "")


async def read(settings: Mapping[str, Any], cursor: Any, around: Around) -> AsyncIterator[Portion]:
    """File after file. Those that were read before, as they are now, are left out."""
    files = 0
    async for file in source_files(settings, around):
        format = format_of(file.name, settings["format"])
        if format is None:
            continue
        if file.version and await around.is_finished(file.mark):
            continue
        files += 1
        async for portion in _rows(file, format, cursor, files, around):
            yield portion


async def _rows(
    file: SourceFile, format: str, cursor: Any, number: int, around: Around
) -> AsyncIterator[Portion]:
    is_begun = bool(cursor) and (cursor["name"], cursor["version"]) == (file.name, file.version)
    position = cursor["position"] if is_begun and file.version else None
    told = {"file": file.name, "files": number}
    async with file.opened() as opened:
        found = portions(opened, format, file.name, position)
        while (portion := await around.aside(lambda: next(found, None))) is not None:
            yield Portion(
                rows=portion.rows,
                bad=portion.bad,
                cursor={"name": file.name, "version": file.version, "position": portion.position},
                total=portion.total,
                details=told,
            )
            position = portion.position
    yield Portion(
        rows=(),
        cursor={"name": file.name, "version": file.version, "position": position},
        details=told,
        finished=[file.mark] if file.version else (),
    )


async def reach(settings: Mapping[str, Any], around: Around) -> None:
    async for file in source_files(settings, around):
        if format_of(file.name, settings["format"]) is not None:
            return
    raise JobProblem("There is no file of a kind that can be imported.")


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
            hint="A file or folder below the project's folder of imports, https://…, or "
            "s3://bucket/prefix.",
        ),
        file_format(AUTO, CSV, JSONL, PARQUET),
        MAPPING,
        SCHEDULE,
        *S3_ACCESS,
    ),
    jobs=(RUN_IMPORT, TEST_CONNECTION),
    check=check,
    read=read,
    reach=reach,
)
