"""The fields of a cohort's definition. Pure.

Evidence: PostHog's frontend/src/types.ts (CohortType, CohortCriteriaGroupFilter,
CohortCriteriaType), posthog/api/cohort.py (PersonFilter, CohortFilter, BehavioralFilter), and
products/cohorts/frontend/generated/api.schemas.ts (CohortApi).
"""

from hedgerow.filters.known_fields import COMPILED_FIELDS, DISPLAY_FIELDS
from hedgerow.lib.shape import Shape

# Identifiers of PostHog's editor.
_EDITOR_FIELDS = ("id", "sort_key")
# Fields of behavioral filters, which are refused by their type.
_BEHAVIORAL_FIELDS = (
    *("event_type", "event_filters", "operator_value", "time_value", "time_interval"),
    *("explicit_datetime", "explicit_datetime_to", "total_periods", "min_periods"),
    *("seq_event_type", "seq_event", "seq_time_value", "seq_time_interval", "value_property"),
)
_FILTER_FIELDS = ("key", "value", "operator", "type", "negation")
_UNUSED = (*_EDITOR_FIELDS, *DISPLAY_FIELDS, *COMPILED_FIELDS)

# A filter on a person property or on another cohort, or a group of them.
COHORT_FILTER = Shape(*_FILTER_FIELDS, unused=_UNUSED)
COHORT_FILTER.fields["values"] = COHORT_FILTER
# The same, or a behavioral filter.
COHORT_NODE = Shape(*_FILTER_FIELDS, unused=(*_UNUSED, *_BEHAVIORAL_FIELDS))
COHORT_NODE.fields["values"] = COHORT_NODE
# Fields of a cohort that PostHog returns or accepts and that have no effect here.
POSTHOG_COHORT_FIELDS = frozenset(
    (
        *("id", "team_id", "created_by", "created_at", "count", "version", "pending_version"),
        *("is_calculating", "errors_calculating", "last_calculation", "last_error_message"),
        *("last_import_total_count", "last_import_unmatched_count", "realtime", "cohort_type"),
        *("experiment_set", "_create_in_folder", "user_access_level"),
    )
)
