"""The steps of an action: their validation, and the condition that they are for events."""

from collections.abc import Mapping, Sequence
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.actions.model import Action
from hedgerow.events.filters.cohorts import CohortsById
from hedgerow.events.filters.compiler import FilterCompiler
from hedgerow.events.filters.conditions import QueryTime
from hedgerow.events.filters.elements import build_element_condition
from hedgerow.filters.known_fields import EVENT_FILTER
from hedgerow.filters.validate import raise_invalid
from hedgerow.hogql.ast import Compare, Expr, FunctionCall
from hedgerow.hogql.builders import (
    all_of,
    any_of,
    compare,
    constant,
    equals,
    false_if_null,
    field,
)
from hedgerow.hogql.parser.parse import parse_expr
from hedgerow.hogql.traversal import iter_nodes
from hedgerow.lib import jsonio
from hedgerow.lib.shape import Shape
from hedgerow.projects.validation import check_known_fields, check_storable

MAX_STEPS = 50
MAX_BYTES = 64 << 10
MAX_TEXT_CHARS = 2_000
EXACT, CONTAINS, REGEX = "exact", "contains", "regex"
MATCHINGS = (CONTAINS, REGEX, EXACT)
MATCHES_ACTION = "matchesaction"

_TEXTS = ("event", "url", "text", "href", "selector", "tag_name")
_MATCHINGS = ("url_matching", "text_matching", "href_matching")
_OPERATORS = {EXACT: "exact", CONTAINS: "icontains", REGEX: "regex"}
# ActionStepJSON in PostHog's posthog/models/action/action.py. `unused` fields are of older versions
# and of PostHog's editor.
STEP = Shape(
    *_TEXTS,
    *_MATCHINGS,
    properties=EVENT_FILTER,
    unused=("id", "name", "isNew", "selection", "selector_regex"),
)


def validate_steps(sent: Any) -> list[dict[str, Any]]:
    """Return the steps to store: each with all fields, null where it has none. Their filters are
    checked by `build_steps_condition`."""
    if not isinstance(sent, list):
        raise_invalid("steps", "A list is required.", "not_a_list")
    if len(sent) > MAX_STEPS:
        raise_invalid("steps", f"An action can have at most {MAX_STEPS} steps.", "max_length")
    check_storable(sent, "steps")
    check_known_fields(sent, STEP, "steps")
    if len(jsonio.encode(sent)) > MAX_BYTES:
        raise_invalid("steps", f"Steps can have at most {MAX_BYTES >> 10} KiB.", "max_length")
    return [_validate_step(each, f"steps[{number}]") for number, each in enumerate(sent)]


def _validate_step(sent: Any, attr: str) -> dict[str, Any]:
    if not isinstance(sent, dict):
        raise_invalid(attr, "Expected an object.")
    step = {name: _read_text(sent, name, attr) for name in _TEXTS}
    step |= {name: _read_matching(sent, name, attr) for name in _MATCHINGS}
    properties = sent.get("properties")
    if not isinstance(properties, list | None):
        raise_invalid(f"{attr}.properties", "A list is required.", "not_a_list")
    return {**step, "properties": properties or []}


def _read_text(sent: Mapping[str, Any], name: str, attr: str) -> str | None:
    value = sent.get(name)
    if not isinstance(value, str | None):
        raise_invalid(f"{attr}.{name}", "Not a valid string.")
    if value and len(value) > MAX_TEXT_CHARS:
        detail = f"Ensure this field has no more than {MAX_TEXT_CHARS} characters."
        raise_invalid(f"{attr}.{name}", detail, "max_length")
    return value or None


def _read_matching(sent: Mapping[str, Any], name: str, attr: str) -> str | None:
    value = sent.get(name) or None
    if value not in (None, *MATCHINGS):
        detail = f"Expected one of: {', '.join(MATCHINGS)}."
        raise_invalid(f"{attr}.{name}", detail, "invalid_choice")
    # As in PostHog, a URL contains the text unless the step says otherwise.
    return CONTAINS if value is None and name == "url_matching" else value


def build_action_condition(action: Action, cohorts: CohortsById, time: QueryTime) -> Expr:
    """Build the condition for the events of an action. Raises Invalid for a step that cannot be
    used any more, because a cohort is gone."""
    try:
        return build_steps_condition(action.steps, cohorts, time)
    except Invalid as error:
        detail = f"Action {action.id} cannot be used. {error.detail}"
        raise Invalid(detail, code="bad_action") from None


def build_steps_condition(
    steps: Sequence[Mapping[str, Any]], cohorts: CohortsById, time: QueryTime
) -> Expr:
    """Match the events of one of the steps. Without steps, no event matches."""
    compiler = FilterCompiler(time, cohorts, parse_expr)
    found = [
        _build_step(step, compiler, time, f"steps[{number}]") for number, step in enumerate(steps)
    ]
    condition = any_of(found)
    for node in iter_nodes(condition):
        if isinstance(node, FunctionCall) and node.name.lower() == MATCHES_ACTION:
            raise_invalid("steps", "The steps of an action cannot refer to actions.")
    return condition


def _build_step(
    step: Mapping[str, Any], compiler: FilterCompiler, time: QueryTime, attr: str
) -> Expr:
    parts: list[Expr] = []
    if step["event"]:
        parts.append(equals(field("event"), step["event"]))
    parts += [
        build_element_condition(key, _build_element_filter(key, step), f"{attr}.{key}", time)
        for key in ("selector", "tag_name", "href", "text")
        if step[key]
    ]
    if step["url"]:
        parts.append(_match_url(step, compiler, f"{attr}.url"))
    if step["properties"]:
        parts.append(compiler.compile(list(step["properties"]), f"{attr}.properties"))
    return all_of(parts)


def _build_element_filter(key: str, step: Mapping[str, Any]) -> dict[str, Any]:
    matching = step.get(f"{key}_matching") or EXACT
    return {"key": key, "value": step[key], "operator": _OPERATORS[matching]}


def _match_url(step: Mapping[str, Any], compiler: FilterCompiler, attr: str) -> Expr:
    """As in PostHog, `contains` has the wildcards of LIKE: /user/%/edit."""
    if step["url_matching"] == CONTAINS:
        pattern = constant(f"%{step['url']}%")
        return false_if_null(compare(field("properties", "$current_url"), Compare.LIKE, pattern))
    operator = _OPERATORS[step["url_matching"]]
    filter = {"key": "$current_url", "value": step["url"], "operator": operator, "type": "event"}
    return compiler.compile(filter, attr)
