"""S3-compatible storage: events as objects in a bucket."""

from hedgerow.pipelines.component import Component, SettingField, SettingType
from hedgerow.pipelines.components.fields import (
    FILTERS,
    REPLAY,
    S3_ACCESS,
    TEST_CONNECTION,
    file_format,
    file_settings_from,
)
from hedgerow.pipelines.model import Family

adopt = file_settings_from("hedgerow/s3-storage", "hedgerow/local-files")

COMPONENT = Component(
    key="hedgerow/s3-storage",
    family=Family.DESTINATION,
    name="S3-compatible storage",
    description="Writes events as objects to S3, MinIO, R2 or any storage that speaks S3.",
    version="1.0.0",
    settings=(
        SettingField(key="bucket", name="Bucket", required=True),
        SettingField(key="prefix", name="Prefix", default="hedgerow/"),
        *S3_ACCESS,
        file_format("jsonl", "parquet"),
        SettingField(
            key="max_megabytes", name="Object size in MB", type=SettingType.INTEGER, default=50
        ),
        SettingField(
            key="max_minutes", name="Object age in minutes", type=SettingType.INTEGER, default=10
        ),
        *FILTERS,
    ),
    jobs=(REPLAY, TEST_CONNECTION),
    adopt=adopt,
)
