"""The fields of property filters. Pure.

Evidence: PostHog's frontend/src/types.ts (BasePropertyFilter and the types that extend it), and
products/feature_flags/backend/api/filters_schema.py (FlagPropertySerializer).
"""

from hedgerow.lib.shape import Shape

# For display in PostHog's interface: it stores them with a filter and sends them back. The types of
# properties were part of filters until definitions had them; PostHog drops them.
DISPLAY_FIELDS = (
    "label",
    "cohort_name",
    "group_key_names",
    "property_type",
    "property_type_format",
)
# PostHog adds these to filters that it compiles.
COMPILED_FIELDS = ("bytecode", "bytecode_error", "conditionHash")

_FIELDS = ("key", "value", "operator", "type")
PROPERTY_FILTER = Shape(*_FIELDS, unused=DISPLAY_FIELDS)
# A filter on events, or a group of such filters.
EVENT_FILTER = Shape(*_FIELDS, "group_type_index", unused=DISPLAY_FIELDS)
EVENT_FILTER.fields["values"] = EVENT_FILTER
