"""What an experiment of PostHog becomes here. Pure.

Its flag is copied before it, with the variants. What of it cannot be measured here is left out, and
said so.
"""

from collections.abc import Callable, Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.experiments.criteria import read_criteria, read_stats
from hedgerow.experiments.metrics import read_metrics
from hedgerow.experiments.model import Conclusion
from hedgerow.experiments.model import Kind as Variety
from hedgerow.experiments.variants import KEPT, check_fits
from hedgerow.flags.model import Flag
from hedgerow.importers.model import Kind, Wanted
from hedgerow.importers.shapes import Item, listed, part, parts

GROUPED = "aggregation_group_type_index"
_DATES = ("start_date", "end_date")
# What there is nothing like here.
_LEFT_OUT = {
    "filters": "older definition of a metric",
    "secondary_metrics": "older secondary metrics",
    "holdout_id": "holdout",
}


def wanted_experiment(
    item: Item, name: str, flags: Mapping[str, Flag], note: Callable[[str], None]
) -> Wanted:
    """Or Invalid, by our rules. `flags` are those that are copied, by their keys."""
    key = str(item.get("feature_flag_key") or part(item, "feature_flag").get("key"))
    flag = flags.get(key)
    if flag is None:
        raise Invalid("Its flag is not copied.")
    check_fits(flag)
    runs = item.get("start_date") is not None and item.get("end_date") is None
    if runs and not flag.active:
        raise Invalid("It runs while its flag is off, which it would switch on here.")
    body: dict[str, Any] = {
        "name": name,
        "description": str(item.get("description") or ""),
        "feature_flag_key": key,
        "type": item["type"] if item.get("type") in list(Variety) else Variety.PRODUCT.value,
        "archived": bool(item.get("archived")),
        "parameters": {
            field: value for field, value in part(item, "parameters").items() if field != KEPT
        },
    }
    body |= {field: item.get(field) for field in _DATES}
    for field in ("metrics", "metrics_secondary"):
        body[field] = _measurable(item, field, note)
    for field, check in _DOCUMENTS.items():
        body[field] = _usable(item, field, check, note)
    for field, what in _LEFT_OUT.items():
        if item.get(field):
            note(f"Without its {what} ({field}).")
    if part(item, "exposure_criteria").get("filterTestAccounts"):
        note("Its test accounts are counted as well: nobody is known as one here.")
    if listed(item, "saved_metrics"):
        note("Without the metrics that it shares with others.")
    if item.get("conclusion") in list(Conclusion):
        body["conclusion"] = item["conclusion"]
        body["conclusion_comment"] = str(item.get("conclusion_comment") or "")
    return Wanted(kind=Kind.EXPERIMENT, source_id=str(item.get("id")), name=name, body=body)


def _measurable(item: Item, field: str, note: Callable[[str], None]) -> list[Item]:
    found = []
    for each in parts(item, field):
        try:
            read_metrics([each], field)
            found.append(each)
        except Invalid as error:
            title = str(each.get("name") or each.get("metric_type") or each.get("kind"))
            note(f"Without the metric {title!r}: {error.detail}")
    return found


def _usable(
    item: Item, field: str, check: Callable[[Item], Any], note: Callable[[str], None]
) -> dict[str, Any]:
    try:
        check(part(item, field))
    except Invalid as error:
        note(f"Without its {field}: {error.detail}")
        return {}
    return dict(part(item, field))


_DOCUMENTS: Mapping[str, Callable[[Item], Any]] = {
    "exposure_criteria": lambda sent: read_criteria(sent, ""),
    "stats_config": read_stats,
}
