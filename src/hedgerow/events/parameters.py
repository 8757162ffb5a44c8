"""The parameters of a question about events, read one by one. Invalid names the one that cannot be
read.
"""

from collections.abc import Callable, Sequence
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.filters.operators import operator_named
from hedgerow.lib import jsonio
from hedgerow.lib.text import whole_number
from hedgerow.projects.text import check_storable

MAX_EXPRESSIONS = 100

# All values of a parameter, in their order.
Parameters = Callable[[str], Sequence[str]]


class Reader:
    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters

    def text(self, name: str) -> str:
        """The last value of a parameter; "" if there is none."""
        return next(iter(reversed(self.texts(name))), "")

    def texts(self, name: str) -> Sequence[str]:
        """All values that are not empty."""
        found = [text for text in self._parameters(name) if text]
        check_storable(found, name)
        return found

    def number(self, name: str, *, least: int) -> int | None:
        text = self.text(name)
        number = whole_number(text) if text else None
        if text and (number is None or number < least):
            raise Invalid(f"A whole number from {least} up is required.", attr=name)
        return number

    def truth(self, name: str, *, otherwise: bool) -> bool:
        text = self.text(name).lower()
        if text not in ("", "true", "1", "false", "0"):
            raise Invalid("Must be a valid boolean.", attr=name)
        return text in ("true", "1") if text else otherwise

    def filters(self, name: str) -> Sequence[Any]:
        """A JSON list of filters, or one filter or group; repeated, all of them."""
        found: list[Any] = []
        for text in self.texts(name):
            value = _json(text, name, "Properties are unparsable!")
            found += value if isinstance(value, list) else _filters(value)
        check_storable(found, name)
        return found

    def expressions(self, name: str) -> list[str] | None:
        """HogQL: a JSON list of texts, or texts; repeated, all of them. None if there is none."""
        sent = self.texts(name)
        if not sent:
            return None
        found = [each for text in sent for each in _texts(text, name)]
        if len(found) > MAX_EXPRESSIONS:
            raise Invalid(f"At most {MAX_EXPRESSIONS} expressions are possible.", attr=name)
        check_storable(found, name)
        return found


def _filters(sent: Any) -> list[Any]:
    """One filter or group; or the oldest form, an object of names and values, where a name may end
    in an operator: `{"plan": "pro", "age__gt": 20}`."""
    if not isinstance(sent, dict) or not sent.keys().isdisjoint(("key", "values", "type")):
        return [sent]
    return [_old_filter(name, value) for name, value in sent.items()]


def _old_filter(name: str, value: Any) -> dict[str, Any]:
    key, _, operator = name.rpartition("__")
    if key and operator_named(operator) is not None:
        return {"key": key, "value": value, "operator": operator}
    return {"key": name, "value": value}


def _texts(text: str, name: str) -> list[str]:
    if not text.lstrip().startswith("["):
        return [text]
    value = _json(text, name, "A JSON list of expressions is required.")
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Invalid("A JSON list of expressions is required.", attr=name, code="not_a_list")
    return value


def _json(text: str, name: str, detail: str) -> Any:
    try:
        return jsonio.parse(text.encode("utf-8", "surrogatepass"))
    except jsonio.JsonError:
        raise Invalid(detail, attr=name) from None
