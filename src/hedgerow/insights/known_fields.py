"""The fields of insight queries, from PostHog's frontend/src/queries/schema. `unused` fields are
sent by PostHog's clients and change only how a result is drawn, or how fast it is computed."""

from hedgerow.lib.shape import Shape

# Fields that every query kind may have without effect here.
COMMON_UNUSED = (
    "samplingFactor", "dataColorTheme", "modifiers", "tags", "response", "version", "name",
)  # fmt: skip
DATE_RANGE = Shape("date_from", "date_to", "explicitDate", "excludeIncompletePeriods", "daysOfWeek")
SERIES_FIELDS = (
    "kind", "event", "id", "name", "custom_name", "properties", "fixedProperties", "math",
    "math_property", "math_property_type", "math_hogql", "math_group_type_index",
    "math_multiplier", "math_property_revenue_currency", "optionalInFunnel",
)  # fmt: skip
SERIES_UNUSED = ("limit", "orderBy", "response", "version")
SERIES = Shape(
    *SERIES_FIELDS,
    "operator",
    nodes=Shape(*SERIES_FIELDS, unused=SERIES_UNUSED),
    unused=SERIES_UNUSED,
)
_BREAKDOWN_FIELDS = (
    "breakdown", "breakdown_type", "breakdown_group_type_index", "breakdown_limit",
    "breakdown_normalize_url", "breakdown_hide_other_aggregation", "breakdown_path_cleaning",
)  # fmt: skip
_BREAKDOWN_ITEM_FIELDS = ("property", "type", "group_type_index", "normalize_url")
BREAKDOWN = Shape(*_BREAKDOWN_FIELDS, breakdowns=Shape(*_BREAKDOWN_ITEM_FIELDS))
TRENDS_BREAKDOWN = Shape(
    *_BREAKDOWN_FIELDS,
    "breakdown_histogram_bin_count",
    breakdowns=Shape(*_BREAKDOWN_ITEM_FIELDS, "histogram_bin_count"),
)
COMPARE = Shape("compare", "compare_to")
TRENDS_FILTER = Shape(
    "display", "formula", "formulas", "smoothingIntervals", "breakdown_histogram_bin_count",
    formulaNodes=Shape("formula", "custom_name"),
    unused=(
        "showLegend", "showAlertThresholdLines", "aggregationAxisFormat", "aggregationAxisPrefix",
        "aggregationAxisPostfix", "decimalPlaces", "minDecimalPlaces", "showValuesOnSeries",
        "showLabelsOnSeries", "showPercentStackView", "yAxisScaleType", "showMultipleYAxes",
        "hiddenLegendIndexes", "resultCustomizationBy", "resultCustomizations", "goalLines",
        "showConfidenceIntervals", "confidenceLevel", "showTrendLines", "showMovingAverage",
        "movingAverageIntervals", "detailedResultsAggregationType", "hideWeekends",
        "excludeBoxPlotOutliers", "legendPosition", "showAnnotations", "stackBreakdownValues",
        "xAxisLabel", "yAxisLabel", "yAxisStartAtZero", "metricColorByDirection", "metricSummary",
        "metricShowChange", "metricChangeDecreaseColor", "metricChangeIncreaseColor",
        "metricLineDecreaseColor", "metricLineIncreaseColor",
    ),
)  # fmt: skip
TRENDS_QUERY = Shape(
    "kind", "interval", "properties", "filterTestAccounts", "conversionGoal",
    dateRange=DATE_RANGE,
    series=SERIES,
    breakdownFilter=TRENDS_BREAKDOWN,
    compareFilter=COMPARE,
    trendsFilter=TRENDS_FILTER,
    calendarHeatmapFilter=Shape("bucketBySessionStart"),
    unused=(*COMMON_UNUSED, "aggregation_group_type_index"),
)  # fmt: skip
FUNNELS_FILTER = Shape(
    "funnelVizType", "funnelOrderType", "funnelWindowInterval", "funnelWindowIntervalUnit",
    "funnelFromStep", "funnelToStep", "funnelAggregateByHogQL", "binCount",
    "breakdownAttributionType", "breakdownAttributionValue",
    "hideIncompleteConversionWindowPeriods", "customAggregationTarget",
    exclusions=Shape(*SERIES_FIELDS, "funnelFromStep", "funnelToStep", unused=SERIES_UNUSED),
    unused=(
        "layout", "funnelStepReference", "hiddenLegendBreakdowns", "useUdf",
        "resultCustomizations", "goalLines", "showValuesOnSeries", "showTrendLines",
        "breakdownSorting", "legendPosition", "showAnnotations", "showLegend",
    ),
)  # fmt: skip
FUNNELS_QUERY = Shape(
    "kind", "interval", "properties", "filterTestAccounts", "aggregation_group_type_index",
    dateRange=DATE_RANGE,
    series=SERIES,
    breakdownFilter=BREAKDOWN,
    compareFilter=COMPARE,
    funnelsFilter=FUNNELS_FILTER,
    unused=COMMON_UNUSED,
)  # fmt: skip
ENTITY = Shape(
    "id", "name", "type", "properties", "custom_name",
    "aggregation_target_field", "table_name", "timestamp_field",
    unused=("uuid", "kind", "order", "math", "aggregation_target"),
)  # fmt: skip
RETENTION_FILTER = Shape(
    "retentionType", "totalIntervals", "minimumOccurrences", "period", "cumulative",
    "timeWindowMode", "retentionCustomBrackets", "aggregationType", "aggregationProperty",
    "aggregationPropertyType", "customAggregationTarget",
    targetEntity=ENTITY,
    returningEntity=ENTITY,
    unused=(
        "retentionReference", "meanRetentionCalculation", "display", "dashboardDisplay",
        "showTrendLines", "goalLines", "selectedInterval", "cohortLabelStartIndex",
    ),
)  # fmt: skip
RETENTION_QUERY = Shape(
    "kind", "properties", "filterTestAccounts", "aggregation_group_type_index",
    dateRange=DATE_RANGE,
    breakdownFilter=BREAKDOWN,
    retentionFilter=RETENTION_FILTER,
    unused=COMMON_UNUSED,
)  # fmt: skip
# The source of an ActorsQuery: a number of an insight, whose own query is checked by its kind.
INSIGHT_ACTORS = Shape(
    "kind", "source", "day", "series", "breakdown", "compare", "interval",
    unused=("includeRecordings", "modifiers", "response", "tags", "version", "status"),
)  # fmt: skip
FUNNELS_ACTORS = Shape(
    "kind", "source", "funnelStep", "funnelStepBreakdown", "funnelTrendsDropOff",
    "funnelTrendsEntrancePeriodStart",
    unused=("includeRecordings", "modifiers", "response", "tags", "version"),
)  # fmt: skip
ACTORS_QUERY = Shape(
    "kind", "source", "select", "search", "orderBy", "limit", "offset",
    unused=("modifiers", "response", "tags", "version", "name"),
)  # fmt: skip
PATHS_FILTER = Shape(
    "includeEventTypes", "pathsHogQLExpression", "startPoint", "endPoint", "pathGroupings",
    "excludeEvents", "stepLimit", "edgeLimit", "minEdgeWeight", "maxEdgeWeight",
    "pathStartKey", "pathEndKey", "pathDropoffKey",
    localPathCleaningFilters=Shape("alias", "regex", unused=("order",)),
    unused=("pathReplacements", "showFullUrls"),
)  # fmt: skip
PATHS_QUERY = Shape(
    "kind", "properties", "filterTestAccounts", "aggregation_group_type_index",
    dateRange=DATE_RANGE,
    pathsFilter=PATHS_FILTER,
    # The funnel is checked by its kind.
    funnelPathsFilter=Shape("funnelPathType", "funnelSource", "funnelStep"),
    unused=COMMON_UNUSED,
)  # fmt: skip
