"""Settings and jobs that several components share, worded once."""

from urllib.parse import urlsplit

from hedgerow.errors import Invalid
from hedgerow.pipelines.component import (
    Adopt,
    JobField,
    JobOffer,
    Origin,
    SettingField,
    Settings,
    SettingType,
)
from hedgerow.pipelines.replay_span import check_payload

REPLAY = JobOffer(
    type="replay",
    title="Send stored events again",
    payload=(
        JobField(key="date_from", title="From (ISO time or -7d; default: 24 hours ago)"),
        JobField(key="date_to", title="To (ISO time or -1d; default: now)"),
        JobField(
            key="events",
            title="Names of events, as a list; default: all that the record wants",
            type=SettingType.JSON,
        ),
        JobField(
            key="again",
            title="Also those that the destination has got already",
            type=SettingType.BOOLEAN,
            default=False,
        ),
    ),
    is_default=True,
    check=check_payload,
)
TEST_CONNECTION = JobOffer(type="test_connection", title="Check that the other side answers")
RUN_IMPORT = JobOffer(
    type="import",
    title="Import now",
    payload=(
        JobField(
            key="again",
            title="From the beginning, also what was read before",
            type=SettingType.BOOLEAN,
            default=False,
        ),
    ),
    is_default=True,
)

EVENT_FILTER = SettingField(
    key="events",
    name="Events",
    type=SettingType.JSON,
    default=[],
    hint="Names of the events to send, as a list. Empty: all.",
)
PROPERTY_FILTER = SettingField(
    key="properties",
    name="Property filters",
    type=SettingType.JSON,
    default=[],
    hint="Property filters that an event must pass, as in a flag's conditions.",
)
SAMPLING = SettingField(
    key="sampling",
    name="Sampling",
    type=SettingType.INTEGER,
    default=100,
    hint="Of a hundred events that pass the filters, so many are sent.",
)
KEEP_ORDER = SettingField(
    key="keep_order",
    name="Keep order",
    type=SettingType.BOOLEAN,
    default=False,
    hint="Send the events of a distinct id one after the other; later ones wait for a retry.",
)
FILTERS = (EVENT_FILTER, PROPERTY_FILTER)
# The events that a transformation is about.
CONCERNED = (
    SettingField(
        key="events",
        name="Events",
        type=SettingType.JSON,
        default=[],
        hint="Names of the events that this is about, as a list. Empty: all.",
    ),
    SettingField(
        key="properties",
        name="Property filters",
        type=SettingType.JSON,
        default=[],
        hint="Filters on the event's properties that must all match, as in a flag's conditions.",
    ),
)
DELIVERY = (SAMPLING, KEEP_ORDER)


def batching(*, size: int, seconds: int) -> tuple[SettingField, SettingField]:
    return (
        SettingField(
            key="batch_size",
            name="Batch size",
            type=SettingType.INTEGER,
            default=size,
            hint="Most events in one request.",
        ),
        SettingField(
            key="batch_seconds",
            name="Batch age",
            type=SettingType.INTEGER,
            default=seconds,
            hint="Longest time in seconds that an event waits for a batch to fill.",
        ),
    )


BATCHING = batching(size=1, seconds=5)

SCHEDULE = SettingField(
    key="schedule",
    name="Schedule",
    hint="Every so often (15m, 6h, 1d) or a cron line (0 4 * * *). Empty: only when asked.",
    default="",
)
MAPPING = SettingField(
    key="mapping",
    name="Mapping",
    type=SettingType.JSON,
    default={},
    hint='Which column is what: {"event": …, "distinct_id": …, "timestamp": …}. The rest are '
    "properties.",
)
S3_ACCESS = (
    SettingField(key="endpoint", name="Endpoint", hint="Empty for AWS.", default=""),
    SettingField(key="region", name="Region", default="us-east-1"),
    SettingField(key="access_key_id", name="Access key id", secret=True),
    SettingField(key="secret_access_key", name="Secret access key", secret=True),
    SettingField(
        key="path_style",
        name="Bucket in the path",
        type=SettingType.BOOLEAN,
        default=True,
        hint="Off for storage that wants the bucket as part of the host.",
    ),
)


def file_format(*formats: str) -> SettingField:
    return SettingField(
        key="format",
        name="File format",
        type=SettingType.CHOICE,
        choices=formats,
        default=formats[0],
    )


def check_between(settings: Settings, key: str, least: int, most: int) -> None:
    """Raise Invalid for a number that is out of its bounds."""
    if not least <= settings[key] <= most:
        raise Invalid(f"A number from {least} to {most} is required.", attr=f"config__{key}")


def check_address(settings: Settings, key: str) -> None:
    """Raise Invalid for a text that is no address of the web."""
    try:
        address = urlsplit(settings[key])
        is_usable = address.scheme in ("http", "https") and bool(address.hostname)
        _ = address.port
    except ValueError:
        is_usable = False
    if not is_usable:
        raise Invalid("An http:// or https:// address is required.", attr=f"config__{key}")


def file_settings_from(own: str, other: str) -> Adopt:
    """The rule of components that write files: format, size and filters go along."""
    shared = ("format", "max_megabytes", "events", "properties", "sampling")

    def adopt(origin: Origin, settings: Settings) -> Settings:
        if origin.key == own:
            return settings
        if origin.key == other:
            # Files on disk are not packed.
            kept = {key: settings[key] for key in shared}
            return kept | {"format": settings["format"].removesuffix(".gz")}
        raise ValueError(f"only the settings of {other} fit")

    return adopt
