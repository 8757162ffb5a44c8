"""The stored form of properties: which of them have a column, and where the others are.

Beside its JSON text, an object of properties has two columns. The first is a tuple with the text of
common properties. The second is of type JSON and has all other properties, one subcolumn each: a
number as Float64, any other value as text after TEXT_MARK.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# Without it, the engine would turn texts that look like a date into times.
TEXT_MARK = "="

# Each costs an insert about 0.1 us per event, present or not; a property in the JSON column costs 2
# us, if present. So these are what many events have, most of all what our clients send by
# themselves.
_COMMON_EVENT_KEYS = (
    "$active_feature_flags", "$app_version", "$browser", "$browser_language", "$browser_version",
    "$current_url", "$device_id", "$device_type", "$event_type", "$feature_flag",
    "$feature_flag_response", "$geoip_city_name", "$geoip_country_code", "$geoip_country_name",
    "$geoip_subdivision_1_name", "$host", "$ip", "$lib", "$lib_version", "$os", "$os_version",
    "$pathname", "$referrer", "$referring_domain", "$screen_height", "$screen_name",
    "$screen_width", "$session_id", "$timezone", "$window_id", "title", "utm_campaign",
    "utm_medium", "utm_source",
)  # fmt: skip
# These are read from the text: they are hardly ever counted, are long, differ in every event, or
# are the same in all.
_TEXT_EVENT_KEYS = (
    "$autocapture_disabled_server_side", "$config_defaults", "$configured_session_timeout_ms",
    "$console_log_recording_enabled_server_side", "$dead_clicks_enabled_server_side",
    "$exception_capture_enabled_server_side", "$geoip_accuracy_radius", "$geoip_continent_code",
    "$geoip_continent_name", "$geoip_latitude", "$geoip_longitude", "$geoip_postal_code",
    "$geoip_subdivision_1_code", "$geoip_subdivision_2_code", "$geoip_subdivision_2_name",
    "$geoip_time_zone", "$insert_id", "$lib_custom_api_host", "$lib_rate_limit_remaining_tokens",
    "$pageview_id", "$process_person_profile", "$raw_user_agent", "$recording_status",
    "$replay_minimum_duration", "$replay_sample_rate", "$sdk_debug_retry_queue_size",
    "$session_recording_start_reason", "$set", "$set_once", "$time", "$unset", "$viewport_height",
    "$viewport_width", "$web_vitals_allowed_metrics", "$web_vitals_enabled_server_side",
    "distinct_id", "token",
)  # fmt: skip
# What capture takes from an event for its person, once as the first and once as the latest value.
_PERSON_KEYS = (
    "$browser", "$current_url", "$device_type", "$geoip_country_code", "$os", "$referring_domain",
    "utm_campaign", "utm_source",
)  # fmt: skip
_SELDOM_PERSON_KEYS = (
    "$app_build", "$app_name", "$app_namespace", "$app_version", "$browser_version",
    "$geoip_accuracy_radius", "$geoip_city_name", "$geoip_continent_code", "$geoip_continent_name",
    "$geoip_country_name", "$geoip_latitude", "$geoip_longitude", "$geoip_postal_code",
    "$geoip_subdivision_1_code", "$geoip_subdivision_1_name", "$geoip_subdivision_2_code",
    "$geoip_subdivision_2_name", "$geoip_time_zone", "$host", "$os_version", "$pathname",
    "$raw_user_agent", "$referrer", "$screen_height", "$screen_width", "$viewport_height",
    "$viewport_width", "utm_content", "utm_medium", "utm_term",
)  # fmt: skip


def _with_initial(keys: Sequence[str]) -> tuple[str, ...]:
    return (*keys, *(f"$initial_{key.removeprefix('$')}" for key in keys))


_COMMON_PERSON_KEYS = ("email", "name", *_with_initial(_PERSON_KEYS))
_TEXT_PERSON_KEYS = ("$creator_event_uuid", *_with_initial(_SELDOM_PERSON_KEYS))
# The engine gives these characters a meaning in the name of a subcolumn.
_SPECIAL = re.compile(r"[\x00-\x1f\x7f`\"'\\^@:\[\]%]")
MAX_KEY_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyColumns:
    """The columns of an object of properties: its JSON text, `common_keys` and the others.
    `text_keys` are in the text only."""

    text: str
    common: str
    other: str
    common_keys: Sequence[str]
    text_keys: Sequence[str]
    max_paths: int

    def has_subcolumn(self, key: str) -> bool:
        """Return whether a subcolumn can be named after the key."""
        return (
            0 < len(key) <= MAX_KEY_CHARS
            and key not in self.text_keys
            and _SPECIAL.search(key) is None
        )


EVENT_PROPERTIES = PropertyColumns(
    text="properties",
    common="properties_common",
    other="properties_other",
    common_keys=_COMMON_EVENT_KEYS,
    text_keys=_TEXT_EVENT_KEYS,
    max_paths=256,
)
PERSON_PROPERTIES = PropertyColumns(
    text="person_properties",
    common="person_properties_common",
    other="person_properties_other",
    common_keys=_COMMON_PERSON_KEYS,
    text_keys=_TEXT_PERSON_KEYS,
    max_paths=128,
)
TYPED_PROPERTIES = {each.text: each for each in (EVENT_PROPERTIES, PERSON_PROPERTIES)}

# Texts that a stored number can have.
_NUMBER_TEXT = re.compile(r"-?[0-9]")


@dataclass(frozen=True, slots=True)
class StoredProperty:
    """A property in the JSON column. `sql` names its subcolumn. Each form that it prints has the
    value of the same conversion of the property's text."""

    sql: str

    @property
    def text(self) -> str:
        return f"substring({self.group_key}, 2)"

    @property
    def group_key(self) -> str:
        """The text after a mark, for numbers too: there are as many as there are texts, and groups
        by it need no copy of each text."""
        marked, number = self._elements
        return f"if(isNull({marked}), concat('{TEXT_MARK}', toString({number})), {marked})"

    @property
    def subcolumns(self) -> Sequence[str]:
        """The SQL of everything that can be read, longest first."""
        return self.marked_text, self.sql

    @property
    def marked_text(self) -> str:
        """Values other than numbers, with the mark before their text. NULL for numbers."""
        return f"{self.sql}.:String"

    @property
    def _elements(self) -> tuple[str, str]:
        """The marked text and the number, one of them NULL. Reads the subcolumn once for both."""
        text, number = (f"dynamicElement({self.sql}, '{name}')" for name in ("String", "Float64"))
        return text, number

    def print_number(self, parse: Callable[[str], str]) -> str:
        """Print the number. `parse` converts the text of other values."""
        marked, number = self._elements
        return f"if(isNull({number}), {parse(f'substring({marked}, 2)')}, {number})"

    def print_bool(self) -> str:
        texts = f"['{TEXT_MARK}true', '{TEXT_MARK}false']"
        return f"transform({self.marked_text}, {texts}, [true, false], NULL)"


def mark_constants(values: list[str]) -> list[str] | None:
    """Return these texts as they are stored, None if one may be stored as a number."""
    if any(_NUMBER_TEXT.match(value) for value in values):
        return None
    return [TEXT_MARK + value for value in values]
