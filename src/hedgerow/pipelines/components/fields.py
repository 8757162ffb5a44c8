"""Settings and jobs that several components share, worded once."""

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
BATCH_SIZE = SettingField(
    key="batch_size",
    name="Batch size",
    type=SettingType.INTEGER,
    default=1,
    hint="Most events in one request.",
)
BATCH_SECONDS = SettingField(
    key="batch_seconds",
    name="Batch age",
    type=SettingType.INTEGER,
    default=5,
    hint="Longest time in seconds that an event waits for a batch to fill.",
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
BATCHING = (BATCH_SIZE, BATCH_SECONDS)
DELIVERY = (SAMPLING, KEEP_ORDER)

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
)


def file_format(*formats: str) -> SettingField:
    return SettingField(
        key="format",
        name="File format",
        type=SettingType.CHOICE,
        choices=formats,
        default=formats[0],
    )


def file_settings_from(own: str, other: str) -> Adopt:
    """The rule of components that write files: format, size, age and filters go along."""
    shared = ("format", "max_megabytes", "max_minutes", "events", "properties")

    def adopt(origin: Origin, settings: Settings) -> Settings:
        if origin.key == own:
            return settings
        if origin.key == other:
            return {key: settings[key] for key in shared}
        raise ValueError(f"only the settings of {other} fit")

    return adopt
