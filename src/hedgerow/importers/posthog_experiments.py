"""Convert an experiment of PostHog. Pure.

Its flag is imported before it, with the variants. Metrics that have no equivalent are left out
with a note.
"""

from collections.abc import Callable, Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.experiments.criteria import parse_criteria, parse_stats
from hedgerow.experiments.known_fields import (
    CRITERIA,
    METRIC,
    PARAMETERS,
    POSTHOG_EXPERIMENT_FIELDS,
    STATS,
)
from hedgerow.experiments.metrics import parse_metrics
from hedgerow.experiments.model import Conclusion
from hedgerow.experiments.model import ExperimentType as ExperimentType
from hedgerow.experiments.variants import VARIANTS_PARAMETER, check_flag_usable
from hedgerow.flags.model import Flag
from hedgerow.importers.documents import Item, get_list, get_object, get_objects
from hedgerow.importers.model import ImportItem, ResourceKind
from hedgerow.importers.unknown_fields import note_unknown_names, strip_unknown_fields
from hedgerow.lib.shape import AnyShape

GROUP_FIELD = "aggregation_group_type_index"
_DATES = ("start_date", "end_date")
# Fields that have no equivalent here.
_UNSUPPORTED_FIELDS = {
    "filters": "legacy metric definition",
    "secondary_metrics": "legacy secondary metrics",
    "holdout_id": "holdout",
}


def convert_experiment(
    item: Item, name: str, flags: Mapping[str, Flag], note: Callable[[str], None]
) -> ImportItem:
    """Raises Invalid if our rules reject it. `flags` are the imported flags by key."""
    key = str(item.get("feature_flag_key") or get_object(item, "feature_flag").get("key"))
    flag = flags.get(key)
    if flag is None:
        raise Invalid("Its flag is not imported.")
    check_flag_usable(flag)
    is_running = item.get("start_date") is not None and item.get("end_date") is None
    if is_running and not flag.active:
        raise Invalid("It runs while its flag is off. Importing it would turn the flag on.")
    body: dict[str, Any] = {
        "name": name,
        "description": str(item.get("description") or ""),
        "feature_flag_key": key,
        "type": item["type"]
        if item.get("type") in list(ExperimentType)
        else ExperimentType.PRODUCT.value,
        "archived": bool(item.get("archived")),
        "parameters": _read_parameters(item, note),
    }
    body |= {field: item.get(field) for field in _DATES}
    for field in ("metrics", "metrics_secondary"):
        body[field] = _select_supported_metrics(item, field, note)
    for field, check in _DOCUMENTS.items():
        body[field] = _read_supported(item, field, check, note)
    for field, what in _UNSUPPORTED_FIELDS.items():
        if item.get(field):
            note(f"Imported without its {what} ({field}).")
    if get_object(item, "exposure_criteria").get("filterTestAccounts"):
        note("Its test accounts are included: they are not marked here.")
    if get_list(item, "saved_metrics"):
        note("Imported without its shared metrics.")
    if item.get("conclusion") in list(Conclusion):
        body["conclusion"] = item["conclusion"]
        body["conclusion_comment"] = str(item.get("conclusion_comment") or "")
    known = (*body, *_UNSUPPORTED_FIELDS, *_OTHER_FIELDS, *POSTHOG_EXPERIMENT_FIELDS)
    note_unknown_names(item, known, note)
    return ImportItem(
        kind=ResourceKind.EXPERIMENT, source_id=str(item.get("id")), name=name, body=body
    )


def _read_parameters(item: Item, note: Callable[[str], None]) -> dict[str, Any]:
    parameters = strip_unknown_fields(
        get_object(item, "parameters"), PARAMETERS, "parameters", note
    )
    return {field: value for field, value in parameters.items() if field != VARIANTS_PARAMETER}


def _select_supported_metrics(item: Item, field: str, note: Callable[[str], None]) -> list[Item]:
    supported = []
    for number, each in enumerate(get_objects(item, field)):
        try:
            _refuse_actions(each)
            parse_metrics([each], field)
            supported.append(strip_unknown_fields(each, METRIC, f"{field}[{number}]", note))
        except Invalid as error:
            title = str(each.get("name") or each.get("metric_type") or each.get("kind"))
            note(f"Imported without the metric {title!r}: {error.detail}")
    return supported


def _refuse_actions(value: Any) -> None:
    """Raise Invalid if a metric counts an action: its number is another one in this project."""
    if isinstance(value, list):
        for each in value:
            _refuse_actions(each)
    elif isinstance(value, dict):
        if value.get("kind") == "ActionsNode":
            raise Invalid("Actions are not imported. Create the action, then add the metric.")
        _refuse_actions(list(value.values()))


def _read_supported(
    item: Item, field: str, check: Callable[[Item], Any], note: Callable[[str], None]
) -> dict[str, Any]:
    try:
        check(get_object(item, field))
    except Invalid as error:
        note(f"Imported without its {field}: {error.detail}")
        return {}
    return dict(strip_unknown_fields(get_object(item, field), _SHAPES[field], field, note))


_DOCUMENTS: Mapping[str, Callable[[Item], Any]] = {
    "exposure_criteria": lambda document: parse_criteria(document, ""),
    "stats_config": parse_stats,
}
_SHAPES: Mapping[str, AnyShape] = {"exposure_criteria": CRITERIA, "stats_config": STATS}
# Fields that are read under another name, or have a note of their own.
_OTHER_FIELDS = (
    *("feature_flag", "holdout", "saved_metrics", "deleted", "conclusion", "conclusion_comment"),
)
