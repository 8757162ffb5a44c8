"""Files: events from CSV, JSON lines or Parquet, on disk, on the web or in S3."""

from hedgerow.pipelines.component import Component, SettingField
from hedgerow.pipelines.components.fields import (
    MAPPING,
    RUN_IMPORT,
    S3_ACCESS,
    SCHEDULE,
    file_format,
)
from hedgerow.pipelines.model import Family

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
            hint="A file or folder below the data folder's imports, https://…, or s3://bucket/prefix.",
        ),
        file_format("csv", "jsonl", "parquet"),
        MAPPING,
        SCHEDULE,
        *S3_ACCESS,
    ),
    jobs=(RUN_IMPORT,),
)
