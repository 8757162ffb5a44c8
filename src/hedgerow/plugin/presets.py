"""Ready-made settings, jobs and checks.

Hedgerow recognizes these settings by their keys and applies them: filters, sampling, order, batches
and schedules need no code in the component.
"""

from urllib.parse import urlsplit

from hedgerow.errors import Invalid
from hedgerow.plugin.component import (
    JobField,
    JobOffer,
    SettingField,
    Settings,
    SettingType,
)
from hedgerow.projects.activity import ACTIVITY_LOG

REPLAY_JOB = JobOffer(
    type="replay",
    title="Send stored events again",
    payload=(
        JobField(key="date_from", title="From (ISO time or -7d; default: 24 hours ago)"),
        JobField(key="date_to", title="To (ISO time or -1d; default: now)"),
        JobField(
            key="events",
            title="Names of events, as a list; default: all events that pass the filters",
            type=SettingType.JSON,
        ),
        JobField(
            key="again",
            title="Also send events that the destination already has",
            type=SettingType.BOOLEAN,
            default=False,
        ),
    ),
)
RETRY_DEAD_LETTERS_JOB = JobOffer(
    type="retry_dead_letters",
    title="Retry the dead letters",
    payload=(
        JobField(key="error", title="Only dead letters with exactly this reason; default: all"),
    ),
)
TEST_CONNECTION_JOB = JobOffer(
    type="test_connection", title="Check that the destination or source responds"
)
IMPORT_JOB = JobOffer(
    type="import",
    title="Import now",
    payload=(
        JobField(
            key="again",
            title="Start from the beginning and read everything again",
            type=SettingType.BOOLEAN,
            default=False,
        ),
    ),
    is_default=True,
)

# What a destination receives: captured events, or the changes in the activity log.
CAPTURED_EVENTS = "events"
EVENT_SOURCE = SettingField(
    key="event_source",
    name="Source",
    type=SettingType.CHOICE,
    choices=(CAPTURED_EVENTS, ACTIVITY_LOG),
    default=CAPTURED_EVENTS,
    hint="events: captured events. activity_log: each change in the activity log of the project.",
)
EVENT_FILTER = SettingField(
    key="events",
    name="Events",
    type=SettingType.JSON,
    default=[],
    hint="Names of the events to send, as a list. Empty: all events.",
)
PROPERTY_FILTER = SettingField(
    key="properties",
    name="Property filters",
    type=SettingType.JSON,
    default=[],
    hint="Property filters that an event must match, written like a flag's conditions.",
)
SAMPLING = SettingField(
    key="sampling",
    name="Sampling",
    type=SettingType.INTEGER,
    default=100,
    hint="Percentage of the events that pass the filters to send, from 1 to 100.",
)
KEEP_ORDER = SettingField(
    key="keep_order",
    name="Keep order",
    type=SettingType.BOOLEAN,
    default=False,
    hint="Send the events of a distinct id in order; later events wait while one is retried.",
)
FILTER_SETTINGS = (EVENT_SOURCE, EVENT_FILTER, PROPERTY_FILTER)
# Which events a transformation applies to.
TRANSFORMATION_FILTER_SETTINGS = (
    SettingField(
        key="events",
        name="Events",
        type=SettingType.JSON,
        default=[],
        hint="Names of the events to transform, as a list. Empty: all events.",
    ),
    SettingField(
        key="properties",
        name="Property filters",
        type=SettingType.JSON,
        default=[],
        hint="Property filters that an event must match, written like a flag's conditions.",
    ),
)
DELIVERY_SETTINGS = (SAMPLING, KEEP_ORDER)


def batch_settings(*, size: int = 1, seconds: int = 5) -> tuple[SettingField, SettingField]:
    """Return the settings for the size and age of batches, with these defaults. Without them
    `deliver` receives one event at a time."""
    return (
        SettingField(
            key="batch_size",
            name="Batch size",
            type=SettingType.INTEGER,
            default=size,
            hint="Maximum number of events in one request.",
        ),
        SettingField(
            key="batch_seconds",
            name="Batch age",
            type=SettingType.INTEGER,
            default=seconds,
            hint="Maximum time in seconds that an event waits for its batch to fill.",
        ),
    )


SCHEDULE_SETTING = SettingField(
    key="schedule",
    name="Schedule",
    hint="An interval (15m, 6h, 1d) or a cron expression (0 4 * * *). Empty: only on request.",
    default="",
)
MAPPING_SETTING = SettingField(
    key="mapping",
    name="Mapping",
    type=SettingType.JSON,
    default={},
    hint='Columns by event field: {"event": …, "distinct_id": …, "timestamp": …}. Other columns '
    "become properties.",
)


def file_format_setting(*formats: str) -> SettingField:
    """Return the setting for a file format; the first one is the default."""
    return SettingField(
        key="format",
        name="File format",
        type=SettingType.CHOICE,
        choices=formats,
        default=formats[0],
    )


def check_range(settings: Settings, key: str, least: int, most: int) -> None:
    """Raise Invalid unless the number is within the bounds."""
    if not least <= settings[key] <= most:
        raise Invalid(f"A number from {least} to {most} is required.", attr=f"config__{key}")


def check_url(settings: Settings, key: str) -> None:
    """Raise Invalid unless the setting is an http:// or https:// URL."""
    try:
        address = urlsplit(settings[key])
        is_usable = address.scheme in ("http", "https") and bool(address.hostname)
        _ = address.port
    except ValueError:
        is_usable = False
    if not is_usable:
        raise Invalid("An http:// or https:// URL is required.", attr=f"config__{key}")
