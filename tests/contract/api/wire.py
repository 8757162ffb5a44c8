"""The language of wire vectors: what a `{name}` stands for, and when an answer is as expected.

In what is sent and expected, `{name}` stands for a value known by then, in its own type when it is
the whole text. In what is expected, a mark such as `<uuid>` stands for any text of that kind, and
`<base>` for the server's address. `<int>`, `<any>` and `<3 items>` stand for whole values, and
`<more>` at the end of a list for whatever else it holds.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

MARKS = {
    "uuid": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z",
    "token phc": r"phc_[0-9A-Za-z]{27,}",
    "token phx": r"phx_[0-9A-Za-z]{27,}",
    "token phs": r"phs_[0-9A-Za-z]{27,}",
    "mask": r"phx_\.\.\.[0-9A-Za-z]{4}",
    "plain id": r"[0-9A-Za-z._:-]{1,128}",
    "number": r"\d+",
    "text": r"(?s:.+)",
}
_NAME = re.compile(r"\{([a-z][a-z0-9_.]*)\}")
_MARK = re.compile("<(" + "|".join(MARKS) + ")>")
_ITEMS = re.compile(r"<(\d+) items>")
MORE = "<more>"

Known = Mapping[str, Any]


def filled(value: Any, known: Known) -> Any:
    """`value` with every `{name}` replaced by what it stands for."""
    if isinstance(value, dict):
        return {filled(name, known): filled(item, known) for name, item in value.items()}
    if isinstance(value, list):
        return [filled(item, known) for item in value]
    if not isinstance(value, str):
        return value
    if whole := _NAME.fullmatch(value):
        return known[whole[1]]
    return _NAME.sub(lambda found: str(known[found[1]]), value)


def picked(answer: Any, path: str) -> Any:
    """The part of an answer that a dotted path such as `body.results.0.id` leads to, if any."""
    for part in path.split("."):
        if isinstance(answer, list):
            answer = answer[int(part)] if int(part) < len(answer) else None
        else:
            answer = answer.get(part) if isinstance(answer, Mapping) else None
    return answer


def differences(expected: Any, actual: Any, base: str, at: str = "body") -> Iterator[str]:
    """What is not as expected, one line for each place; nothing when all is."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for name in sorted(expected.keys() | actual.keys()):
            if name not in actual:
                yield f"{at}.{name} is missing"
            elif name not in expected:
                yield f"{at}.{name} is not expected: {actual[name]!r}"
            else:
                yield from differences(expected[name], actual[name], base, f"{at}.{name}")
    elif isinstance(expected, list) and isinstance(actual, list):
        if expected[-1:] == [MORE]:
            expected, actual = expected[:-1], actual[: len(expected) - 1]
        if len(expected) != len(actual):
            yield f"{at} holds {len(actual)} and not {len(expected)} items"
        for index, (wanted, found) in enumerate(zip(expected, actual, strict=False)):
            yield from differences(wanted, found, base, f"{at}.{index}")
    elif not _matches(expected, actual, base):
        yield f"{at} is {actual!r} and not {expected!r}"


def _matches(expected: Any, actual: Any, base: str) -> bool:
    if not isinstance(expected, str):
        return type(expected) is type(actual) and bool(expected == actual)
    if expected in ("<any>", "<int>"):
        return expected == "<any>" or type(actual) is int
    if items := _ITEMS.fullmatch(expected):
        return isinstance(actual, list) and len(actual) == int(items[1])
    return isinstance(actual, str) and _pattern(expected, base).fullmatch(actual) is not None


def _pattern(expected: str, base: str) -> re.Pattern[str]:
    parts = _MARK.split(expected.replace("<base>", base))
    return re.compile(
        "".join(MARKS[part] if n % 2 else re.escape(part) for n, part in enumerate(parts))
    )
