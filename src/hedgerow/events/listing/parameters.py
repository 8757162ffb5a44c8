"""Parsing of query parameters. Raises Invalid with the name of an invalid parameter."""

from collections.abc import Callable, Sequence
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.filters.operators import parse_operator
from hedgerow.lib import jsonio
from hedgerow.lib.text import parse_whole_number
from hedgerow.projects.validation import check_storable

MAX_EXPRESSIONS = 100

# Returns all values of a parameter, in order.
ParameterValues = Callable[[str], Sequence[str]]


class ParameterReader:
    def __init__(self, parameters: ParameterValues) -> None:
        self._parameters = parameters

    def text(self, name: str) -> str:
        """Return the last value of a parameter, or an empty string."""
        return next(iter(reversed(self.texts(name))), "")

    def texts(self, name: str) -> Sequence[str]:
        """Return all non-empty values."""
        found = [text for text in self._parameters(name) if text]
        check_storable(found, name)
        return found

    def integer(self, name: str, *, minimum: int) -> int | None:
        text = self.text(name)
        number = parse_whole_number(text) if text else None
        if text and (number is None or number < minimum):
            raise Invalid(f"Expected an integer of at least {minimum}.", attr=name)
        return number

    def boolean(self, name: str, *, default: bool) -> bool:
        text = self.text(name).lower()
        if text not in ("", "true", "1", "false", "0"):
            raise Invalid("Must be a valid boolean.", attr=name)
        return text in ("true", "1") if text else default

    def filters(self, name: str) -> Sequence[Any]:
        """Parse a JSON list of filters, or one filter or group. Repeated parameters add up."""
        found: list[Any] = []
        for text in self.texts(name):
            value = _parse_json(text, name, "Properties are unparsable!")
            found += value if isinstance(value, list) else _parse_filters(value)
        check_storable(found, name)
        return found

    def expressions(self, name: str) -> list[str] | None:
        """Parse HogQL: a JSON list of texts, or plain texts. Repeated parameters add up. Returns
        None without any, and for JSON's null, which clients send for a list they do not have."""
        sent = [text for text in self.texts(name) if text.strip() != "null"]
        if not sent:
            return None
        found = [each for text in sent for each in _parse_expressions(text, name)]
        if len(found) > MAX_EXPRESSIONS:
            raise Invalid(f"Expected at most {MAX_EXPRESSIONS} expressions.", attr=name)
        check_storable(found, name)
        return found


def _parse_filters(sent: Any) -> list[Any]:
    """Parse one filter or group, or the oldest format: an object of values by name, where a name
    may end in an operator: `{"plan": "pro", "age__gt": 20}`. Null and an empty text are no
    filter."""
    if sent is None or sent == "":
        return []
    if not isinstance(sent, dict) or not sent.keys().isdisjoint(("key", "values", "type")):
        return [sent]
    return [_parse_legacy_filter(name, value) for name, value in sent.items()]


def _parse_legacy_filter(name: str, value: Any) -> dict[str, Any]:
    key, _, operator = name.rpartition("__")
    if key and parse_operator(operator) is not None:
        return {"key": key, "value": value, "operator": operator}
    return {"key": name, "value": value}


def _parse_expressions(text: str, name: str) -> list[str]:
    if not text.lstrip().startswith("["):
        return [text]
    value = _parse_json(text, name, "Expected a JSON list of expressions.")
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Invalid("Expected a JSON list of expressions.", attr=name, code="not_a_list")
    return value


def _parse_json(text: str, name: str, detail: str) -> Any:
    try:
        return jsonio.parse(text.encode("utf-8", "surrogatepass"))
    except jsonio.JsonError:
        raise Invalid(detail, attr=name) from None
