"""Filters on autocaptured elements, matched against `elements_chain`.

The patterns follow the quoting of `events/elements.py`, so text inside a value never matches as an
element.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.events.filters.conditions import QueryTime, build_condition, validate_operator
from hedgerow.filters.operators import Operator
from hedgerow.filters.validate import raise_invalid
from hedgerow.hogql.ast import Arithmetic, ArithmeticOperation, Expr, Lambda
from hedgerow.hogql.builders import all_of, any_of, call, constant, equals, field, negate
from hedgerow.lib.text import truncate

MAX_SELECTOR_PARTS = 10
ELEMENT_KEYS = ("text", "href", "tag_name", "selector")

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_ELEMENT = rf'((?:[^";]|{_QUOTED})+)'
_PAIR = rf'([^";=]*={_QUOTED})'
_VALUE = r'="((?:[^"\\]|\\.)*)"$'
_ESCAPED = r'\\(["\\])'
_SIMPLE = {Operator.EXACT, Operator.IS_NOT}
_POSITIVE_OPERATORS = {
    Operator.IS_NOT: Operator.EXACT,
    Operator.NOT_ICONTAINS: Operator.ICONTAINS,
    Operator.NOT_REGEX: Operator.REGEX,
    Operator.IS_NOT_SET: Operator.IS_SET,
}

_CHAIN = field("elements_chain")
_NAME = r"[\w-]+"
_STEP = re.compile(
    rf"\.(?P<cls>(?:\\.|[\w:/-])+)|#(?P<id>{_NAME})"
    rf"|\[(?P<attr>{_NAME})(?:=(?P<quote>[\"']?)(?P<value>[^\"'\]]*)(?P=quote))?\]"
    r"|:nth-(?P<nth>child|of-type)\((?P<number>\d{1,6})\)"
)
_PART = re.compile(
    rf"({_NAME}|\*)?((?:\.(?:\\.|[\w:/-])+|#{_NAME}|\[[^\]]*\]|:nth-[a-z-]+\(\d+\))*)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SelectorPart:
    """One element of a CSS selector: the patterns that it must match. `is_child` requires a direct
    child of the part before."""

    patterns: Sequence[str]
    is_child: bool


def build_element_condition(
    key: str, filter: Mapping[str, Any], attr: str, time: QueryTime
) -> Expr:
    operator = validate_operator(filter, attr)
    if key not in ELEMENT_KEYS:
        detail = f'Unknown key "{truncate(key)}". Expected one of: {", ".join(ELEMENT_KEYS)}.'
        raise_invalid(f"{attr}.key", detail, "invalid_choice")
    if key in ("tag_name", "selector") and operator not in _SIMPLE:
        detail = f"The key {key} supports only these operators: exact, is_not."
        raise_invalid(f"{attr}.operator", detail, "unsupported_operator")
    sent, opposite = filter.get("value"), _POSITIVE_OPERATORS.get(operator)
    if sent == []:
        return all_of([])
    if key in ("text", "href"):
        holds = _match_value(key, opposite or operator, sent, time)
    else:
        texts = [str(each) for each in (sent if isinstance(sent, list) else [sent])]
        match_one = _match_tag if key == "tag_name" else _match_selector
        holds = any_of([match_one(each, f"{attr}.value") for each in texts])
    return negate(holds) if opposite else holds


def _match_value(key: str, operator: Operator, sent: Any, time: QueryTime) -> Expr:
    pair = field("pair")
    quoted = call("extract", pair, constant(_VALUE))
    text = call("replaceRegexpAll", quoted, constant(_ESCAPED), constant(r"\1"))
    is_of_key = call("match", pair, constant(rf"^(?:[^=]*:)?{key}="))
    conditions = all_of([is_of_key, build_condition(text, operator, sent, time)])
    pairs = call("extractAll", _CHAIN, constant(_PAIR))
    return call("arrayExists", Lambda(args=["pair"], expr=conditions), pairs)


def _match_tag(tag: str, _: str) -> Expr:
    return _match_elements(
        [_SelectorPart(patterns=[_tag_pattern(tag)], is_child=False)], _split_chain()
    )


def _match_selector(selector: str, attr: str) -> Expr:
    return _match_elements(_parse_selector(selector, attr), _split_chain())


def _split_chain() -> Expr:
    return call("extractAll", _CHAIN, constant(_ELEMENT))


def _match_elements(
    parts: Sequence[_SelectorPart], elements: Expr, *, only_first: bool = False
) -> Expr:
    """Match an element against the last part, and its ancestors against the parts before. A chain
    goes from the innermost element outwards."""
    *outer, own = parts
    element, index = field(f"element_{len(parts)}"), field(f"index_{len(parts)}")
    conditions: list[Expr] = [call("match", element, constant(each)) for each in own.patterns]
    if only_first:
        conditions.append(equals(index, 1))
    if outer:
        following = ArithmeticOperation(op=Arithmetic.ADD, left=index, right=constant(1))
        rest = call("arraySlice", elements, following)
        conditions.append(_match_elements(outer, rest, only_first=own.is_child))
    names = [f"element_{len(parts)}", f"index_{len(parts)}"]
    each = Lambda(args=names, expr=all_of(conditions) if conditions else constant(True))
    return call("arrayExists", each, elements, call("arrayEnumerate", elements))


def _parse_selector(selector: str, attr: str) -> Sequence[_SelectorPart]:
    found: list[_SelectorPart] = []
    is_child = False
    for word in re.sub(r"\s*>\s*", " > ", selector).split():
        if word == ">":
            is_child = bool(found)
            continue
        match = _PART.fullmatch(word) if len(word) <= 1000 else None
        if match is None or len(found) == MAX_SELECTOR_PARTS:
            raise_invalid(attr, f'"{truncate(selector)}" is not a supported selector.')
        patterns = [_tag_pattern(match[1])] if match[1] and match[1] != "*" else []
        patterns += [_step_pattern(each) for each in _STEP.finditer(match[2])]
        found.append(_SelectorPart(patterns=patterns, is_child=is_child))
        is_child = False
    if not found:
        raise_invalid(attr, "Expected a CSS selector.")
    return found


def _tag_pattern(name: str) -> str:
    return rf"^{re.escape(name)}(?:[.:]|$)"


def _step_pattern(step: re.Match[str]) -> str:
    if step["cls"]:
        name = re.sub(r"\\(.)", r"\1", step["cls"])
        return rf'^[^"]*\.{re.escape(name)}(?:[.:]|$)'
    if step["id"]:
        return rf'[":]attr_id="{re.escape(step["id"])}"'
    if step["nth"]:
        return rf'[":]nth-{step["nth"]}="{step["number"]}"'
    name = re.escape(step["attr"])
    sent = step["value"]
    if sent is None:
        return rf'[":](?:attr__)?{name}="'
    escaped = re.escape(re.sub(r'(["\\])', r"\\\1", sent))
    return rf'[":](?:attr__)?{name}="{escaped}"'
