"""Local files: events as JSON lines or Parquet in a folder of the server."""

import re
from collections.abc import Sequence

from hedgerow.errors import Invalid
from hedgerow.events.archive import line_of
from hedgerow.events.model import Event
from hedgerow.pipelines.component import Component, SettingField, Settings, SettingType
from hedgerow.pipelines.components.fields import (
    DELIVERY,
    FILTERS,
    REPLAY,
    batching,
    check_between,
    file_format,
    file_settings_from,
)
from hedgerow.pipelines.model import Family
from hedgerow.pipelines.sending import CannotSend, Failed, FilePlace, Outcome, Sent, Surroundings

MEGABYTE = 1024 * 1024
FOLDER_MAX = 200

# Names that begin with a letter or a digit: nothing hidden, nothing that leads upwards.
_FOLDER = re.compile(r"[A-Za-z0-9][\w .-]{0,99}(/[A-Za-z0-9][\w .-]{0,99})*/?", re.ASCII)

adopt = file_settings_from("hedgerow/local-files", "hedgerow/s3-storage")


def check(settings: Settings) -> None:
    folder = settings["folder"]
    if len(folder) > FOLDER_MAX or not _FOLDER.fullmatch(folder):
        raise Invalid(
            "A folder such as archive/web is required: names of letters, digits, - and _ with / "
            "between, below the exports folder.",
            attr="config__folder",
        )
    check_between(settings, "max_megabytes", 1, 10_000)
    check_between(settings, "max_minutes", 1, 24 * 60)


async def deliver(
    events: Sequence[Event], settings: Settings, around: Surroundings
) -> Sequence[Outcome]:
    place = FilePlace(
        # No project writes where another does.
        folder=f"project-{events[0].project_id}/{settings['folder'].rstrip('/')}",
        format=settings["format"],
        max_bytes=settings["max_megabytes"] * MEGABYTE,
        max_age_s=settings["max_minutes"] * 60,
    )
    outcome: Outcome = Sent()
    try:
        await around.files.append(place, b"".join(line_of(event) for event in events))
    except CannotSend as reason:
        outcome = Failed(reason=str(reason))
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
            hint="Below the folder for exports and the project's own in it, such as archive/web.",
        ),
        file_format("jsonl", "parquet"),
        SettingField(
            key="max_megabytes", name="File size in MB", type=SettingType.INTEGER, default=100
        ),
        SettingField(
            key="max_minutes", name="File age in minutes", type=SettingType.INTEGER, default=60
        ),
        *FILTERS,
        *DELIVERY,
        *batching(size=500, seconds=1),
    ),
    jobs=(REPLAY,),
    adopt=adopt,
    check=check,
    deliver=deliver,
)
