"""The elements that somebody clicked on, as one text: from the innermost outwards, joined by `;`,
each its tag, its classes and its attributes: `a.big.red:href="/"nth-child="1"nth-of-type="1"`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hedgerow.lib.jsonio import encode
from hedgerow.lib.text import whole_number

MAX_TEXT_CHARS = 400
MAX_HREF_CHARS = 2048
MAX_PLACE = 1_000_000

# What would end an element, or begin a value, where only names belong.
_NOT_IN_NAMES = str.maketrans("", "", '";')
_TO_ESCAPE = re.compile(r'(["\\])')
_ESCAPED = re.compile(r'\\(["\\])')
# A class may hold a colon, and so may an attribute's name: the first known name tells them apart.
_FIRST_KEY = re.compile(r":(?=attr__|(?:text|href|attr_id|nth-child|nth-of-type)=)")
_ANY_FIRST_KEY = re.compile(r":(?=[a-zA-Z0-9_-]*=)")
# Names, then a quoted value or the end of the element. It matches anywhere and never goes back, so
# that the longest hostile chain is read in one go.
_STEP = re.compile(r'([^";]*)(?:"((?:[^"\\]|\\.?)*)"?|;|\Z)', re.DOTALL)


class Element(msgspec.Struct, frozen=True, kw_only=True):
    """One element, as answers show it. `event` is always null there."""

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


def without_elements(properties: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """An event's chain of elements, and its properties without them. A chain that the client made
    itself goes before a list."""
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
    return elements_chain(sent_elements(elements)), rest


def sent_elements(elements: Any) -> Sequence[Element]:
    """The elements of a client's `$elements`; what is no element is left out."""
    if not isinstance(elements, list):
        return ()
    sent = (each for each in elements if isinstance(each, dict))
    return [_sent_element(each, order) for order, each in enumerate(sent)]


def elements_chain(elements: Sequence[Element]) -> str:
    return ";".join(_link(element) for element in elements)


def parsed_elements(chain: str) -> Sequence[Element]:
    """The elements of a chain, whoever made it. Takes time in proportion to its length."""
    return [
        _parsed_element(head, attributes, order)
        for order, (head, attributes) in enumerate(_links(chain))
    ]


def _sent_element(sent: Mapping[str, Any], order: int) -> Element:
    return Element(
        text=_text(sent.get("$el_text"))[:MAX_TEXT_CHARS] or None,
        tag_name=_text(sent.get("tag_name")).translate(_NOT_IN_NAMES) or None,
        attr_class=_classes(sent.get("attr__class")),
        href=_text(sent.get("attr__href"))[:MAX_HREF_CHARS] or None,
        attr_id=_text(sent.get("attr__id")) or None,
        nth_child=_place(sent.get("nth_child")),
        nth_of_type=_place(sent.get("nth_of_type")),
        attributes={
            name.translate(_NOT_IN_NAMES): _text(value)
            for name, value in sent.items()
            if name.startswith("attr__")
        },
        order=order,
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else encode(value).decode()


def _classes(sent: Any) -> Sequence[str] | None:
    names = sent.split() if isinstance(sent, str) else sent
    if not isinstance(names, list):
        return None
    return sorted(filter(None, (_text(name).translate(_NOT_IN_NAMES) for name in names))) or None


def _place(sent: Any) -> int:
    place = whole_number(sent) if isinstance(sent, str) else sent
    if isinstance(place, bool) or not isinstance(place, int):
        return 0
    return place if 0 <= place <= MAX_PLACE else 0


def _link(element: Element) -> str:
    values = {
        "text": element.text,
        "href": element.href,
        "attr_id": element.attr_id,
        "nth-child": str(element.nth_child or 0),
        "nth-of-type": str(element.nth_of_type or 0),
        **element.attributes,
    }
    classes = "".join(f".{name}" for name in element.attr_class or ())
    pairs = (_pair(name, value) for name, value in sorted(values.items()) if value is not None)
    return f"{element.tag_name or ''}{classes}:{''.join(pairs)}"


def _pair(name: str, value: str) -> str:
    escaped = _TO_ESCAPE.sub(r"\\\1", value)
    return f'{name}="{escaped}"'


def _links(chain: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each element's tag and classes, and its attributes."""
    head, attributes = "", dict[str, str]()
    for names, quoted in (step.groups() for step in _STEP.finditer(chain)):
        if quoted is not None:
            name = names
            if not attributes:
                head, name = _parted(names)
            attributes[name.removesuffix("=")] = _ESCAPED.sub(r"\1", quoted)
        elif attributes or names:
            yield head if attributes else names, attributes
            head, attributes = "", {}


def _parted(names: str) -> tuple[str, str]:
    """Tag and classes, and the name of the first attribute."""
    colon = _FIRST_KEY.search(names) or _ANY_FIRST_KEY.search(names)
    return (names[: colon.start()], names[colon.end() :]) if colon else (names, "")


def _parsed_element(head: str, attributes: dict[str, str], order: int) -> Element:
    tag_name, *classes = head.removesuffix(":").split(".")
    return Element(
        text=attributes.pop("text", None),
        tag_name=tag_name or None,
        attr_class=[name for name in classes if name] or None,
        href=attributes.pop("href", None),
        attr_id=attributes.pop("attr_id", None),
        nth_child=whole_number(attributes.pop("nth-child", "")),
        nth_of_type=whole_number(attributes.pop("nth-of-type", "")),
        attributes={name: value for name, value in attributes.items() if name},
        order=order,
    )
