"""The fields of a flag's filters. Pure.

Evidence: PostHog's products/feature_flags/backend/api/filters_schema.py, FeatureFlagSerializer in
products/feature_flags/backend/api/feature_flag.py, and FeatureFlagFilters, FeatureFlagGroupType,
FeatureFlagType and EarlyAccessFeatureType in frontend/src/types.ts.
"""

from hedgerow.filters.known_fields import COMPILED_FIELDS, DISPLAY_FIELDS
from hedgerow.lib.shape import Shape

FLAG_PROPERTY = Shape(
    *("key", "value", "operator", "type", "group_type_index"),
    # `dependency_chain` is in definitions for local evaluation.
    unused=(*DISPLAY_FIELDS, *COMPILED_FIELDS, "negation", "dependency_chain"),
)
CONDITION = Shape(
    *("rollout_percentage", "variant", "aggregation_group_type_index"),
    properties=FLAG_PROPERTY,
    unused=(
        *("description", "sort_key", "users_affected"),  # of PostHog's interface
        *("exposure_frozen", "exposure_frozen_cohort"),  # of PostHog's experiments
    ),
)
VARIANT = Shape("key", "name", "rollout_percentage", unused=("description",))
HOLDOUT = Shape("id", "exclusion_percentage")
FLAG_FILTERS = Shape(
    *("payloads", "aggregation_group_type_index", "feature_enrollment", "early_exit"),
    groups=CONDITION,
    multivariate=Shape(variants=VARIANT),
    super_groups=CONDITION,
    holdout=HOLDOUT,
    holdout_groups=CONDITION,
)
# Fields of a flag that PostHog returns or accepts and that have no effect here.
POSTHOG_FLAG_FIELDS = frozenset(
    (
        *("id", "team_id", "created_by", "created_at", "updated_at", "last_modified_by"),
        *("experiment_set", "experiment_set_metadata", "surveys", "features", "can_edit"),
        *("usage_dashboard", "analytics_dashboards", "has_enriched_analytics"),
        *("rollback_conditions", "performed_rollback", "user_access_level", "status"),
        *("last_called_at", "creation_context", "_create_in_folder", "is_simple_flag"),
        *("_should_create_usage_dashboard", "should_create_usage_dashboard"),
        *("is_used_in_replay_settings", "is_eligible_for_experiment"),
    )
)
# Fields of an early access feature, likewise.
POSTHOG_FEATURE_FIELDS = frozenset(
    (
        *("id", "created_at", "created_by", "feature_flag", "assignee"),
        *("_create_in_folder", "user_access_level"),
    )
)
