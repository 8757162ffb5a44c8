"""The elements of an autocaptured click, as PostHog's elements chain.

A chain goes from the innermost element outwards, joined by `;`. Each element has its tag, classes
and attributes: `a.big.red:href="/"nth-child="1"nth-of-type="1"`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hedgerow.lib.jsonio import encode
from hedgerow.lib.text import parse_whole_number

MAX_TEXT_CHARS = 400
MAX_HREF_CHARS = 2048
MAX_POSITION = 1_000_000

# Characters that end an element or start a value are not allowed in names.
_NOT_IN_NAMES = str.maketrans("", "", '";')
_NEEDS_ESCAPE = re.compile(r'(["\\])')
_ESCAPED = re.compile(r'\\(["\\])')
# Classes and attribute names may contain a colon, so the head ends at the first known name.
_FIRST_KEY = re.compile(r":(?=attr__|(?:text|href|attr_id|nth-child|nth-of-type)=)")
_ANY_FIRST_KEY = re.compile(r":(?=[a-zA-Z0-9_-]*=)")
# Names, then a quoted value or the end of the element. The pattern never backtracks, so a hostile
# chain takes linear time.
_STEP = re.compile(r'([^";]*)(?:"((?:[^"\\]|\\.?)*)"?|;|\Z)', re.DOTALL)


class Element(msgspec.Struct, frozen=True, kw_only=True):
    """One element as responses contain it. `event` is always null there."""

    event: None = None
    text: str | None = None
    tag_name: str | None = None
    attr_class: Sequence[str] | None = None
    href: str | None = None
    attr_id: str | None = None
    nth_child: int | None = None
    nth_of_type: int | None = None
    attributes: Mapping[str, str] = {}
    order: int = 0


def extract_elements(properties: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the chain of an event and its properties without elements. A chain that the client
    built takes precedence over a list of elements."""
    chain, elements = properties.get("$elements_chain"), properties.get("$elements")
    if chain is None and elements is None:
        return "", properties
    rest = {
        name: value
        for name, value in properties.items()
        if name not in ("$elements", "$elements_chain")
    }
    if isinstance(chain, str) and chain:
        return chain, rest
    return format_chain(parse_sent_elements(elements)), rest


def parse_sent_elements(elements: Any) -> Sequence[Element]:
    """Parse the `$elements` of a client. Entries that are not elements are skipped."""
    if not isinstance(elements, list):
        return ()
    sent = (each for each in elements if isinstance(each, dict))
    return [_parse_sent_element(each, order) for order, each in enumerate(sent)]


def format_chain(elements: Sequence[Element]) -> str:
    return ";".join(_format_element(element) for element in elements)


def parse_chain(chain: str) -> Sequence[Element]:
    """Parse any chain, in time proportional to its length."""
    return [
        _parse_element(head, attributes, order)
        for order, (head, attributes) in enumerate(_split_chain(chain))
    ]


def _parse_sent_element(sent: Mapping[str, Any], order: int) -> Element:
    return Element(
        text=_to_text(sent.get("$el_text"))[:MAX_TEXT_CHARS] or None,
        tag_name=_to_text(sent.get("tag_name")).translate(_NOT_IN_NAMES) or None,
        attr_class=_parse_classes(sent.get("attr__class")),
        href=_to_text(sent.get("attr__href"))[:MAX_HREF_CHARS] or None,
        attr_id=_to_text(sent.get("attr__id")) or None,
        nth_child=_parse_position(sent.get("nth_child")),
        nth_of_type=_parse_position(sent.get("nth_of_type")),
        attributes={
            name.translate(_NOT_IN_NAMES): _to_text(value)
            for name, value in sent.items()
            if name.startswith("attr__")
        },
        order=order,
    )


def _to_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else encode(value).decode()


def _parse_classes(sent: Any) -> Sequence[str] | None:
    names = sent.split() if isinstance(sent, str) else sent
    if not isinstance(names, list):
        return None
    return sorted(filter(None, (_to_text(name).translate(_NOT_IN_NAMES) for name in names))) or None


def _parse_position(sent: Any) -> int:
    place = parse_whole_number(sent) if isinstance(sent, str) else sent
    if isinstance(place, bool) or not isinstance(place, int):
        return 0
    return place if 0 <= place <= MAX_POSITION else 0


def _format_element(element: Element) -> str:
    values = {
        "text": element.text,
        "href": element.href,
        "attr_id": element.attr_id,
        "nth-child": str(element.nth_child or 0),
        "nth-of-type": str(element.nth_of_type or 0),
        **element.attributes,
    }
    classes = "".join(f".{name}" for name in element.attr_class or ())
    pairs = (
        _format_attribute(name, value)
        for name, value in sorted(values.items())
        if value is not None
    )
    return f"{element.tag_name or ''}{classes}:{''.join(pairs)}"


def _format_attribute(name: str, value: str) -> str:
    escaped = _NEEDS_ESCAPE.sub(r"\\\1", value)
    return f'{name}="{escaped}"'


def _split_chain(chain: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the tag and classes of each element, and its attributes."""
    head, attributes = "", dict[str, str]()
    for names, quoted in (step.groups() for step in _STEP.finditer(chain)):
        if quoted is not None:
            name = names
            if not attributes:
                head, name = _split_head(names)
            attributes[name.removesuffix("=")] = _ESCAPED.sub(r"\1", quoted)
        elif attributes or names:
            yield head if attributes else names, attributes
            head, attributes = "", {}


def _split_head(names: str) -> tuple[str, str]:
    """Split the tag and classes from the name of the first attribute."""
    colon = _FIRST_KEY.search(names) or _ANY_FIRST_KEY.search(names)
    return (names[: colon.start()], names[colon.end() :]) if colon else (names, "")


def _parse_element(head: str, attributes: dict[str, str], order: int) -> Element:
    tag_name, *classes = head.removesuffix(":").split(".")
    return Element(
        text=attributes.pop("text", None),
        tag_name=tag_name or None,
        attr_class=[name for name in classes if name] or None,
        href=attributes.pop("href", None),
        attr_id=attributes.pop("attr_id", None),
        nth_child=parse_whole_number(attributes.pop("nth-child", "")),
        nth_of_type=parse_whole_number(attributes.pop("nth-of-type", "")),
        attributes={name: value for name, value in attributes.items() if name},
        order=order,
    )
