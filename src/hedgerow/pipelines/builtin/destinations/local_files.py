"""Local files: writes events as JSON Lines or Parquet to a folder of the server."""

import re
from collections.abc import Sequence

from hedgerow.errors import Invalid
from hedgerow.events.archive import encode_line
from hedgerow.events.model import Event
from hedgerow.plugin.component import (
    Component,
    Family,
    MigrateSettings,
    SettingField,
    Settings,
    SettingsOrigin,
    SettingType,
)
from hedgerow.plugin.delivery import DeliveryContext, FileTarget
from hedgerow.plugin.http import TransportError
from hedgerow.plugin.outcomes import Delivered, Failed, Outcome
from hedgerow.plugin.presets import (
    DELIVERY_SETTINGS,
    FILTER_SETTINGS,
    REPLAY_JOB,
    RETRY_DEAD_LETTERS_JOB,
    batch_settings,
    check_range,
    file_format_setting,
)

MEGABYTE = 1024 * 1024
FOLDER_MAX = 200

# Each name begins with a letter or digit: no hidden files, no `..`.
_FOLDER = re.compile(r"[A-Za-z0-9][\w .-]{0,99}(/[A-Za-z0-9][\w .-]{0,99})*/?", re.ASCII)


def file_settings_migration(own: str, other: str) -> MigrateSettings:
    """Migrate settings between components that write files: format, size and filters are kept."""
    shared = ("format", "max_megabytes", "events", "properties", "sampling")

    def migrate(origin: SettingsOrigin, settings: Settings) -> Settings:
        if origin.key == own:
            return settings
        if origin.key == other:
            # Local files have no compressed format.
            kept = {key: settings[key] for key in shared}
            return kept | {"format": settings["format"].removesuffix(".gz")}
        raise ValueError(f"only the settings of {other} can be migrated")

    return migrate


migrate_settings = file_settings_migration("hedgerow/local-files", "hedgerow/s3-storage")


def check(settings: Settings) -> None:
    folder = settings["folder"]
    if len(folder) > FOLDER_MAX or not _FOLDER.fullmatch(folder):
        raise Invalid(
            "A folder such as archive/web is required: names of letters, digits, - and _, "
            "separated by /, below the exports folder.",
            attr="config__folder",
        )
    check_range(settings, "max_megabytes", 1, 10_000)
    check_range(settings, "max_minutes", 1, 24 * 60)


async def deliver(
    events: Sequence[Event], settings: Settings, ctx: DeliveryContext
) -> Sequence[Outcome]:
    target = FileTarget(
        # Each project has its own folder.
        folder=f"project-{events[0].project_id}/{settings['folder'].rstrip('/')}",
        format=settings["format"],
        max_bytes=settings["max_megabytes"] * MEGABYTE,
        max_age_s=settings["max_minutes"] * 60,
    )
    outcome: Outcome = Delivered()
    try:
        await ctx.files.append(target, b"".join(encode_line(event) for event in events))
    except TransportError as error:
        outcome = Failed(reason=str(error))
    return [outcome] * len(events)


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
            hint="Relative to the project's folder below the exports folder, such as archive/web.",
        ),
        file_format_setting("jsonl", "parquet"),
        SettingField(
            key="max_megabytes", name="File size in MB", type=SettingType.INTEGER, default=100
        ),
        SettingField(
            key="max_minutes", name="File age in minutes", type=SettingType.INTEGER, default=60
        ),
        *FILTER_SETTINGS,
        *DELIVERY_SETTINGS,
        *batch_settings(size=500, seconds=1),
    ),
    jobs=(REPLAY_JOB, RETRY_DEAD_LETTERS_JOB),
    migrate_settings=migrate_settings,
    check=check,
    deliver=deliver,
)
