"""The fields of an experiment's documents. Pure.

Evidence: PostHog's products/experiments/frontend/generated/api.schemas.ts (ExperimentApiMetric,
ExperimentApiEventSource, ExperimentApiExposureCriteria), posthog/schema.py (EventsNode,
ActionsNode, ExperimentMetricBaseProperties), and Experiment in frontend/src/types.ts.
"""

from collections.abc import Mapping
from typing import Any

from hedgerow.experiments.model import Experiment
from hedgerow.filters.known_fields import EVENT_FILTER
from hedgerow.flags.known_fields import HOLDOUT
from hedgerow.lib import jsonio
from hedgerow.lib.shape import Shape
from hedgerow.projects.validation import check_known_fields

# Every node of a PostHog query has these.
_NODE_FIELDS = ("response", "version", "tags")
_SERIES = Shape(
    *("kind", "event", "id", "math", "math_property"),
    properties=EVENT_FILTER,
    unused=(
        *("name", "custom_name", "limit", "orderBy", "optionalInFunnel"),
        *("math_group_type_index", "math_hogql", "math_multiplier", "math_property_type"),
        *("math_property_revenue_currency", *_NODE_FIELDS),
    ),
)
_LEGACY_QUERY = Shape(
    "kind",
    series=_SERIES,
    unused=(
        *("funnelsFilter", "trendsFilter", "dateRange", "interval", "filterTestAccounts"),
        *("breakdownFilter", "compareFilter", "conversionGoal", "samplingFactor", "modifiers"),
        *("aggregation_group_type_index", "dataColorTheme", "properties", *_NODE_FIELDS),
    ),
)
METRIC = Shape(
    *("kind", "metric_type", "name", "uuid", "goal"),
    *("conversion_window", "conversion_window_unit", "funnel_order_type"),
    series=_SERIES,
    source=_SERIES,
    numerator=_SERIES,
    denominator=_SERIES,
    funnels_query=_LEGACY_QUERY,
    count_query=_LEGACY_QUERY,
    unused=(
        *("fingerprint", "isSharedMetric", "sharedMetricId", "breakdownFilter", "ignore_zeros"),
        *("experiment_id", "exposure_query", *_NODE_FIELDS),
        # Metrics with these are refused, with a message of their own.
        *("lower_bound_percentile", "upper_bound_percentile", "threshold"),
        *("numerator_outlier_handling", "denominator_outlier_handling"),
        *("start_event", "completion_event", "start_handling"),
        *("retention_window_start", "retention_window_end", "retention_window_unit"),
    ),
)
CRITERIA = Shape(
    "multiple_variant_handling",
    exposure_config=Shape(
        *("kind", "event"),
        properties=EVENT_FILTER,
        unused=("id", "name", "custom_name", *_NODE_FIELDS),
    ),
    unused=("filterTestAccounts",),
)
STATS = Shape(
    "method",
    bayesian=Shape("ci_level"),
    frequentist=Shape(
        "alpha", "sequential_testing_enabled", unused=("sequential_tuning_parameter",)
    ),
    cuped=Shape("enabled", "lookback_days"),
    unused=("version", "baseline_variant_key"),
)
PARAMETERS = Shape(
    *("rollout_percentage", "aggregation_group_type_index"),
    feature_flag_variants=Shape(
        *("key", "name", "rollout_percentage", "split_percent"), unused=("description",)
    ),
    unused=(
        *("minimum_detectable_effect", "recommended_running_time", "recommended_sample_size"),
        *("exposure_estimate_config", "custom_exposure_filter", "variant_screenshot_media_ids"),
        *("variant_notes", "prompt_metadata", "excluded_variants"),
    ),
)
# Fields of an experiment that PostHog returns or accepts and that have no effect here.
POSTHOG_EXPERIMENT_FIELDS = frozenset(
    (
        *("id", "created_by", "created_at", "updated_at", "status", "user_access_level"),
        *("exposure_cohort", "running_time_calculation", "excluded_variants", "scheduling_config"),
        *("saved_metrics_ids", "primary_metrics_ordered_uuids", "secondary_metrics_ordered_uuids"),
        *("allow_unknown_events", "only_count_matured_users", "update_feature_flag_params"),
        *("is_legacy", "can_freeze_exposure", "resolved_exposure_event", "feature_flag_config"),
        *("flag_cleanup_task_id", "tags", "version", "_create_in_folder"),
    )
)
DOCUMENTS: Mapping[str, Shape] = {
    "parameters": PARAMETERS,
    "metrics": METRIC,
    "metrics_secondary": METRIC,
    "exposure_criteria": CRITERIA,
    "stats_config": STATS,
    "holdout": HOLDOUT,
}


def check_document_fields(edit: Mapping[str, Any]) -> None:
    """Raise Invalid for an unknown field in a document of an edit."""
    for name, shape in DOCUMENTS.items():
        check_known_fields(edit.get(name), shape, name)


def drop_unchanged_documents(
    edit: Mapping[str, Any], before: Experiment, shown_parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the edit without documents that a client sends back as they are. They can be older
    than the checks."""
    shown = {name: getattr(before, name) for name in DOCUMENTS} | {"parameters": shown_parameters}
    return {
        name: value
        for name, value in edit.items()
        if name not in shown or not jsonio.is_equal(value, shown[name])
    }
