"""Explanations of flag values as lines of text, from the JSON of the API."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hedgerow.cli.output import print_table
from hedgerow.flags.evaluation.explanation import Source
from hedgerow.lib.text import format_value

Json = Mapping[str, Any]


def print_explanations(explanations: Sequence[Json]) -> None:
    """Print one row per flag."""
    print_table(
        ("flag", "value", "payload", "reason"),
        [
            (
                each["key"],
                format_value(each["value"]),
                "" if each["payload"] is None else _format_payload(each),
                _format_reason(each),
            )
            for each in explanations
        ],
        empty="No flags.",
    )


def describe_explanation(explanation: Json, distinct_id: str) -> Iterator[str]:
    """Yield the lines that explain the value of one flag."""
    yield f"{explanation['key']} for {format_value(distinct_id)}"
    yield f"  value    {format_value(explanation['value'] is not False)}"
    if explanation["variant"] is not None:
        yield f"  variant  {format_value(explanation['variant'])}"
    if explanation["payload"] is not None:
        yield f"  payload  {_format_payload(explanation)}"
    yield f"  reason   {_format_reason(explanation)}"
    for needed in explanation["dependencies"]:
        yield f"depends on {needed['key']}: {needed['problem'] or _describe_value(needed['value'])}"
    for override in explanation["exceptions"]:
        yield from _describe_override(override)
    for condition in explanation["conditions"]:
        yield from _describe_condition(condition)


def _format_payload(explanation: Json) -> str:
    payload = explanation["payload"]
    return payload if isinstance(payload, str) else format_value(payload)


def _format_reason(explanation: Json) -> str:
    text = f"{explanation['reason']}: {explanation['description']}"
    return f"{text} ({explanation['error']})" if explanation["error"] else text


def _describe_value(value: bool | str | None) -> str:
    return f"gives {format_value(value)}"


def _describe_override(override: Json) -> Iterator[str]:
    yield f"{override['kind']}: {'decides' if override['decides'] else 'does not decide'}"
    for each in override["filters"]:
        yield from _describe_filter(each)
    if override["rollout"] is not None:
        words = _HOLDOUT if override["kind"] == "holdout" else _ROLLOUT
        yield _describe_rollout(override["rollout"], *words)


def _describe_condition(condition: Json) -> Iterator[str]:
    about = f" on {condition['group_type']}" if condition["group_type"] else ""
    verdict = str(condition["verdict"])
    if not condition["is_reached"]:
        verdict = f"not reached ({verdict})"
    yield f"condition {condition['index'] + 1}{about}: {verdict}"
    if not condition["filters"]:
        yield "  no filters: matches everyone"
    for each in condition["filters"]:
        yield from _describe_filter(each)
    yield _describe_rollout(condition["rollout"], *_ROLLOUT)
    if condition["variants"] is not None:
        yield _describe_variants(condition["variants"])


def _describe_filter(node: Json, indent: str = "  ") -> Iterator[str]:
    """Yield the lines of a filter or of a group of filters, with nested ones indented."""
    if "parts" in node:
        parts = node["parts"]
        if len(parts) == 1:  # "all" and "any" of one part are the same
            yield from _describe_filter(parts[0], indent)
            return
        text = f"{node['wants']} of these" if parts else "no filters"
    else:
        text = f"not {_format_filter(node)}" if node["negated"] else _format_filter(node)
        parts = [node["inside"]] if node["inside"] else []
    yield f"{indent}{_MARKS[node['holds']]}  {text}"
    for part in parts:
        yield from _describe_filter(part, f"{indent}     ")


_MARKS = {True: "yes", False: "no ", None: "?  "}


def _format_filter(node: Json) -> str:
    key, operator = node["key"], node["operator"]
    match node["kind"]:
        case "cohort":
            membership = "is in it" if node["found"] else "is not in it"
            above = ", as shown above" if node["is_told_before"] else ""
            return f"cohort {format_value(key)} {operator}: {membership}{above}"
        case "flag":
            expected = format_value(node["wanted"])
            return f"flag {key} must give {expected}: {_describe_value(node['found'])}"
    expected = "" if operator in ("is_set", "is_not_set") else f" {format_value(node['wanted'])}"
    text = f"{node['about']} {key} {operator}{expected}"
    if node["source"] == Source.MISSING:
        return f"{text}: missing"
    return f"{text}: {format_value(node['found'])} ({node['source']})"


_ROLLOUT, _HOLDOUT = ("rollout", "in"), ("holdout", "held out")


def _describe_rollout(rollout: Json, name: str, word: str) -> str:
    share = f"{name} of {rollout['percentage']:g} %"
    if rollout["place"] is None:
        return f"  {share}: no {rollout['counted_by']} to bucket by"
    verdict = word if rollout["is_in"] else f"not {word}"
    identifier = format_value(rollout["identifier"])
    at = f"{rollout['counted_by']} {identifier} is at {rollout['place']:.4f} %"
    return f"  {share}: {at}, {verdict}"


def _describe_variants(variants: Json) -> str:
    if variants["forced"] is not None:
        return f"  variant {variants['forced']}: fixed by this condition"
    ranges = ", ".join(
        f"{each['key']} {each['start']:g}-{each['end']:g} %" for each in variants["ranges"]
    )
    if variants["place"] is None:
        return f"  variants {ranges}"
    drawn = variants["drawn"] or "in none of them"
    return f"  variants {ranges}: {variants['place']:.4f} % is {drawn}"
