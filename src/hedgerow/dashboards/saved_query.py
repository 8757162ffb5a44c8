"""The query of a saved insight: a query kind, or a node that shows one. Pure.

Evidence: InsightVizNode, DataVisualizationNode, DataTableNode and DashboardFilter in PostHog's
frontend/src/queries/schema.
"""

from collections.abc import Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib.shape import Shape
from hedgerow.lib.text import truncate
from hedgerow.queries.fields import QueryFields

_SHOW_FIELDS = (
    "showHeader", "showTable", "showCorrelationTable", "showResults", "showFilters",
    "showLastComputation", "showLastComputationRefresh", "showActions", "showDateRange",
    "showSearch", "showEventFilter", "showPropertyFilter", "showEventsFilter", "showElapsedTime",
    "showHogQLEditor", "showReload", "showExport", "showColumnConfigurator", "showTimings",
    "showOpenEditorButton", "showPersistentColumnConfigurator", "showSavedQueries",
    "showTestAccountFilters", "showTableViews", "showSourceQueryOptions", "showAbsoluteTimestamps",
    "showCount", "showRecordingColumn", "showSavedFilters",
)  # fmt: skip
# How a result is shown. Only `source` has an effect here.
_NODE_UNUSED = (*_SHOW_FIELDS, "embedded", "full", "response", "version", "tags")
NODES = {
    "InsightVizNode": Shape(
        "kind", "source",
        unused=(
            *_NODE_UNUSED, "fitParentHeight", "suppressSessionAnalysisWarning",
            "hidePersonsModal", "hideTooltipOnScroll", "vizSpecificOptions",
        ),
    ),
    "DataVisualizationNode": Shape(
        "kind", "source", unused=(*_NODE_UNUSED, "display", "chartSettings", "tableSettings")
    ),
    "DataTableNode": Shape(
        "kind", "source",
        unused=(
            *_NODE_UNUSED, "columns", "pinnedColumns", "hiddenColumns", "contextKey", "context",
            "expandable", "allowSorting", "propertiesViaUrl", "defaultColumns",
        ),
    ),
}  # fmt: skip
# Their results change with more than events, persons and cohorts.
_UNSAVED_KINDS = ("ExperimentQuery", "ExperimentExposureQuery")
FILTERS = Shape("date_from", "date_to", "properties", "breakdown_filter", "explicitDate")
BROKEN_DOWN_KINDS = ("TrendsQuery", "FunnelsQuery", "RetentionQuery")


def parse_node(query: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the query of a saved insight. Raises Invalid for a kind that cannot be saved."""
    for place, node in (("", query), ("source__", unwrap_node(query))):
        kind = node.get("kind")
        if isinstance(kind, str) and kind in _UNSAVED_KINDS:
            detail = f"A saved insight cannot be of the kind {kind}. Send it to query/ instead."
            raise Invalid(detail, attr=f"query__{place}kind", code="not_supported")
    return unwrap_node(query)


def unwrap_node(query: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the query that a node shows. Raises Invalid for a node with unknown fields."""
    kind = query.get("kind")
    if not isinstance(kind, str) or kind not in NODES:
        return query
    QueryFields(query).check_known(NODES[kind])
    source = query.get("source")
    if not isinstance(source, dict):
        detail = "Expected the query that the node shows, such as a TrendsQuery."
        raise Invalid(detail, attr="query__source", code="required")
    inner = source.get("kind")
    if isinstance(inner, str) and inner in NODES:
        detail = f'"{truncate(inner)}" cannot be the source of a node.'
        raise Invalid(detail, attr="query__source__kind", code="invalid_choice")
    return source


def locate_error(error: Invalid, query: Mapping[str, Any]) -> Invalid:
    """Return an error of a query as one of the node around it."""
    kind = query.get("kind")
    is_node = isinstance(kind, str) and kind in NODES
    if not is_node or not (error.attr or "").startswith("query__"):
        return error
    place = (error.attr or "").removeprefix("query__")
    return Invalid(error.detail, attr=f"query__source__{place}", code=error.code)


def apply_filters(source: Mapping[str, Any], filters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the query with the filters of a dashboard: another date range, further properties,
    another breakdown. A query that cannot have one of them is left as it is."""
    kind = source.get("kind")
    if kind == "HogQLQuery":
        own = source.get("filters")
        inner = _apply(own if isinstance(own, dict) else {}, filters)
        return {**source, "filters": inner} if inner else source
    if kind == "EventsQuery":
        return _apply_to_events(source, filters)
    if kind == "ActorsQuery":
        return source
    result = _apply(source, filters)
    if filters.get("breakdown_filter") and kind in BROKEN_DOWN_KINDS:
        result["breakdownFilter"] = filters["breakdown_filter"]
    return result


def _apply(source: Mapping[str, Any], filters: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(source)
    if filters.get("date_from") or filters.get("date_to"):
        names = ("date_from", "date_to", "explicitDate")
        result["dateRange"] = {name: filters[name] for name in names if filters.get(name)}
    if properties := filters.get("properties"):
        result["properties"] = _join_properties(source.get("properties"), properties)
    return result


def _apply_to_events(source: Mapping[str, Any], filters: Mapping[str, Any]) -> Mapping[str, Any]:
    result = dict(source)
    for name, sent in (("after", "date_from"), ("before", "date_to")):
        if filters.get(sent):
            result[name] = filters[sent]
    if properties := filters.get("properties"):
        result["fixedProperties"] = [*(source.get("fixedProperties") or ()), *properties]
    return result


def _join_properties(own: Any, added: Any) -> Any:
    if not own:
        return added
    if isinstance(own, list):
        return [*own, *added]
    group = {"type": "AND", "values": list(added)}
    return {"type": "AND", "values": [own, group]}
