"""The fields of a cohort's definition. Pure.

Evidence: PostHog's frontend/src/types.ts (CohortType, CohortCriteriaGroupFilter,
CohortCriteriaType), posthog/api/cohort.py (PersonFilter, CohortFilter, BehavioralFilter), and
products/cohorts/frontend/generated/api.schemas.ts (CohortApi).
"""

from hedgerow.filters.known_fields import COMPILED_FIELDS, DISPLAY_FIELDS
from hedgerow.lib.shape import Shape
from hedgerow.persons.behaviors.filters import BEHAVIORAL_FILTER

# Identifiers of PostHog's editor.
_EDITOR_FIELDS = ("id", "sort_key")
_FILTER_FIELDS = ("key", "value", "operator", "type", "negation")
_UNUSED = (*_EDITOR_FIELDS, *DISPLAY_FIELDS, *COMPILED_FIELDS)

# A filter on a person property or on another cohort, or a group of them.
COHORT_FILTER = Shape(*_FILTER_FIELDS, unused=_UNUSED)
COHORT_FILTER.fields["values"] = COHORT_FILTER
# The same, or a behavioral filter.
COHORT_NODE = Shape(
    *_FILTER_FIELDS,
    **{name: shape for name, shape in BEHAVIORAL_FILTER.fields.items() if shape is not None},
    unused=(*_UNUSED, *BEHAVIORAL_FILTER.fields, *BEHAVIORAL_FILTER.unused),
)
COHORT_NODE.fields["values"] = COHORT_NODE
# Fields of a cohort that PostHog or Hedgerow returns, and that have no effect if they are sent.
POSTHOG_COHORT_FIELDS = frozenset(
    (
        *("id", "team_id", "created_by", "created_at", "count", "version", "pending_version"),
        *("is_calculating", "errors_calculating", "last_calculation", "last_error_message"),
        *("last_import_total_count", "last_import_unmatched_count", "realtime", "cohort_type"),
        *("experiment_set", "_create_in_folder", "user_access_level", "calculation_progress"),
    )
)
