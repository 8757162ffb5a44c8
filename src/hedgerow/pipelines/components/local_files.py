"""Local files: events as JSON lines or Parquet in a folder of the server."""

from hedgerow.pipelines.component import Component, SettingField, SettingType
from hedgerow.pipelines.components.fields import FILTERS, REPLAY, file_format, file_settings_from
from hedgerow.pipelines.model import Family

adopt = file_settings_from("hedgerow/local-files", "hedgerow/s3-storage")

COMPONENT = Component(
    key="hedgerow/local-files",
    family=Family.DESTINATION,
    name="Local files",
    description="Writes events to files on the server, rotated by size and age.",
    version="1.0.0",
    settings=(
        SettingField(
            key="folder",
            name="Folder",
            required=True,
            hint="Below the data folder's exports, such as archive/web.",
        ),
        file_format("jsonl", "parquet"),
        SettingField(
            key="max_megabytes", name="File size in MB", type=SettingType.INTEGER, default=100
        ),
        SettingField(
            key="max_minutes", name="File age in minutes", type=SettingType.INTEGER, default=60
        ),
        *FILTERS,
    ),
    jobs=(REPLAY,),
    adopt=adopt,
)
