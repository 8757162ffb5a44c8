"""The language of wire vectors: variables and placeholders.

In requests and expected responses, `{name}` is replaced by the value of a variable, with its own
type if it is the whole string. In expected responses, a placeholder such as `<uuid>` matches any
text of that kind, and `<base>` the URL of the server. `<int>`, `<any>` and `<3 items>` match whole
values, and `<more>` at the end of a list matches all further items.
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

Variables = Mapping[str, Any]


def substitute(value: Any, known: Variables) -> Any:
    """Replace every `{name}` in `value` by its variable."""
    if isinstance(value, dict):
        return {substitute(name, known): substitute(item, known) for name, item in value.items()}
    if isinstance(value, list):
        return [substitute(item, known) for item in value]
    if not isinstance(value, str):
        return value
    if whole := _NAME.fullmatch(value):
        return known[whole[1]]
    return _NAME.sub(lambda found: str(known[found[1]]), value)


def select_path(answer: Any, path: str) -> Any:
    """Return the part of a response at a dotted path such as `body.results.0.id`, or None."""
    for part in path.split("."):
        if isinstance(answer, list):
            answer = answer[int(part)] if int(part) < len(answer) else None
        else:
            answer = answer.get(part) if isinstance(answer, Mapping) else None
    return answer


def find_differences(expected: Any, actual: Any, base: str, at: str = "body") -> Iterator[str]:
    """Yield one line for each difference."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for name in sorted(expected.keys() | actual.keys()):
            if name not in actual:
                yield f"{at}.{name} is missing"
            elif name not in expected:
                yield f"{at}.{name} is not expected: {actual[name]!r}"
            else:
                yield from find_differences(expected[name], actual[name], base, f"{at}.{name}")
    elif isinstance(expected, list) and isinstance(actual, list):
        if expected[-1:] == [MORE]:
            expected, actual = expected[:-1], actual[: len(expected) - 1]
        if len(expected) != len(actual):
            yield f"{at} holds {len(actual)} and not {len(expected)} items"
        for index, (item, found) in enumerate(zip(expected, actual, strict=False)):
            yield from find_differences(item, found, base, f"{at}.{index}")
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
