"""Filters on the elements that somebody clicked on, asked of an event's `elements_chain`.

A chain is taken apart with the quotes that events/elements.py writes, so that nothing that stands
inside a value is taken for an element.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.events.conditions import Moment, checked_operator, condition
from hedgerow.events.expressions import all_of, any_of, call, equal, field, not_, value
from hedgerow.filters.operators import Operator
from hedgerow.filters.rules import refuse
from hedgerow.hogql.ast import Arithmetic, ArithmeticOperation, Expr, Lambda
from hedgerow.lib.text import cut_short

MAX_PARTS = 10
KEYS = ("text", "href", "tag_name", "selector")

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_ELEMENT = rf'((?:[^";]|{_QUOTED})+)'
_PAIR = rf'([^";=]*={_QUOTED})'
_VALUE = r'="((?:[^"\\]|\\.)*)"$'
_ESCAPED = r'\\(["\\])'
_SIMPLE = {Operator.EXACT, Operator.IS_NOT}
_OPPOSITES = {
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
class _Part:
    """One element of a selector: patterns that it must match. `is_child`: of the part before."""

    patterns: Sequence[str]
    is_child: bool


def element_condition(key: str, filter: Mapping[str, Any], place: str, at: Moment) -> Expr:
    operator = checked_operator(filter, place)
    if key not in KEYS:
        detail = f'An element has no "{cut_short(key)}", only {", ".join(KEYS)}.'
        refuse(f"{place}.key", detail, "invalid_choice")
    if key in ("tag_name", "selector") and operator not in _SIMPLE:
        detail = f"For {key}, exact and is_not are possible."
        refuse(f"{place}.operator", detail, "unsupported_operator")
    wanted, opposite = filter.get("value"), _OPPOSITES.get(operator)
    if wanted == []:
        return all_of([])
    if key in ("text", "href"):
        holds = _some_value(key, opposite or operator, wanted, at)
    else:
        texts = [str(each) for each in (wanted if isinstance(wanted, list) else [wanted])]
        ask = _some_tag if key == "tag_name" else _selected
        holds = any_of([ask(each, f"{place}.value") for each in texts])
    return not_(holds) if opposite else holds


def _some_value(key: str, operator: Operator, wanted: Any, at: Moment) -> Expr:
    pair = field("pair")
    quoted = call("extract", pair, value(_VALUE))
    text = call("replaceRegexpAll", quoted, value(_ESCAPED), value(r"\1"))
    is_of_key = call("match", pair, value(rf"^(?:[^=]*:)?{key}="))
    asked = all_of([is_of_key, condition(text, operator, wanted, at)])
    pairs = call("extractAll", _CHAIN, value(_PAIR))
    return call("arrayExists", Lambda(args=["pair"], expr=asked), pairs)


def _some_tag(tag: str, _: str) -> Expr:
    return _some_element([_Part(patterns=[_tag(tag)], is_child=False)], _elements())


def _selected(selector: str, place: str) -> Expr:
    return _some_element(_parts(selector, place), _elements())


def _elements() -> Expr:
    return call("extractAll", _CHAIN, value(_ELEMENT))


def _some_element(parts: Sequence[_Part], elements: Expr, *, only_first: bool = False) -> Expr:
    """Whether some element matches the last part, and those around it the parts before. A chain
    goes from the innermost outwards."""
    *outer, own = parts
    element, index = field(f"element_{len(parts)}"), field(f"index_{len(parts)}")
    asked: list[Expr] = [call("match", element, value(each)) for each in own.patterns]
    if only_first:
        asked.append(equal(index, 1))
    if outer:
        following = ArithmeticOperation(op=Arithmetic.ADD, left=index, right=value(1))
        rest = call("arraySlice", elements, following)
        asked.append(_some_element(outer, rest, only_first=own.is_child))
    names = [f"element_{len(parts)}", f"index_{len(parts)}"]
    each = Lambda(args=names, expr=all_of(asked) if asked else value(True))
    return call("arrayExists", each, elements, call("arrayEnumerate", elements))


def _parts(selector: str, place: str) -> Sequence[_Part]:
    found: list[_Part] = []
    is_child = False
    for word in re.sub(r"\s*>\s*", " > ", selector).split():
        if word == ">":
            is_child = bool(found)
            continue
        match = _PART.fullmatch(word) if len(word) <= 1000 else None
        if match is None or len(found) == MAX_PARTS:
            refuse(place, f'"{cut_short(selector)}" is no selector that is understood here.')
        patterns = [_tag(match[1])] if match[1] and match[1] != "*" else []
        patterns += [_pattern(each) for each in _STEP.finditer(match[2])]
        found.append(_Part(patterns=patterns, is_child=is_child))
        is_child = False
    if not found:
        refuse(place, "A selector is required.")
    return found


def _tag(name: str) -> str:
    return rf"^{re.escape(name)}(?:[.:]|$)"


def _pattern(step: re.Match[str]) -> str:
    if step["cls"]:
        name = re.sub(r"\\(.)", r"\1", step["cls"])
        return rf'^[^"]*\.{re.escape(name)}(?:[.:]|$)'
    if step["id"]:
        return rf'[":]attr_id="{re.escape(step["id"])}"'
    if step["nth"]:
        return rf'[":]nth-{step["nth"]}="{step["number"]}"'
    name = re.escape(step["attr"])
    wanted = step["value"]
    if wanted is None:
        return rf'[":](?:attr__)?{name}="'
    escaped = re.escape(re.sub(r'(["\\])', r"\\\1", wanted))
    return rf'[":](?:attr__)?{name}="{escaped}"'
