"""The fields of a query in a request. Raises Invalid with the name of an invalid field."""

from collections.abc import Collection, Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib.shape import Shape, find_unknown_fields
from hedgerow.lib.text import explain_unstorable, truncate

# Fields that PostHog's clients send with every kind of query, without an effect here: Node and
# DataNode in PostHog's frontend/src/queries/schema.
UNUSED_FIELDS = ("response", "modifiers", "tags", "version")


class QueryFields:
    """The fields of one object. `attr` is the prefix of names in errors."""

    def __init__(self, fields: Mapping[str, Any], attr: str = "query") -> None:
        self._fields = fields
        self._attr = attr

    def attr(self, name: str) -> str:
        return f"{self._attr}__{name}"

    def all(self) -> Mapping[str, Any]:
        return self._fields

    def raw(self, name: str) -> Any:
        """Return the value as it was sent, or None."""
        return self._fields.get(name)

    def check_known(self, shape: Shape) -> None:
        """Raise Invalid for a field that the shape does not have: a misspelled one would change the
        result silently."""
        for found in find_unknown_fields(self._fields, shape, ""):
            raise Invalid(found.detail, attr=self.attr(found.path), code="unknown_field")

    def refuse_value(self, name: str, detail: str) -> None:
        """Raise Invalid if a field that is not supported has a value. Clients also send defaults
        without an effect."""
        if self._fields.get(name) not in (None, False, "", [], {}):
            raise Invalid(detail, attr=self.attr(name), code="not_supported")

    def text(self, name: str) -> str:
        """Return the text, or an empty string."""
        value = self._fields.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise Invalid("Not a valid string.", attr=self.attr(name))
        if unstorable := explain_unstorable(value):
            raise Invalid(unstorable[1], attr=self.attr(name), code=unstorable[0])
        return value

    def boolean(self, name: str) -> bool:
        value = self._fields.get(name)
        if value is not None and not isinstance(value, bool):
            raise Invalid("Must be a valid boolean.", attr=self.attr(name))
        return bool(value)

    def mapping(self, name: str) -> Mapping[str, Any]:
        value = self._fields.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            detail = f'Expected a dictionary of items but got type "{type(value).__name__}".'
            raise Invalid(detail, attr=self.attr(name), code="not_a_dict")
        return value

    def list_field(self, name: str) -> list[Any]:
        value = self._fields.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            detail = f'Expected a list of items but got type "{type(value).__name__}".'
            raise Invalid(detail, attr=self.attr(name), code="not_a_list")
        return value

    def integer(self, name: str) -> int | None:
        """Return a whole number, which may be written as 14.0, or None."""
        value = self._fields.get(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise Invalid("A valid integer is required.", attr=self.attr(name))
        return value

    def number(self, name: str, least: int, most: int) -> int | None:
        """Return an integer within limits, or None."""
        found = self.integer(name)
        if found is not None and not least <= found <= most:
            detail = f"A number from {least} to {most} is required."
            raise Invalid(detail, attr=self.attr(name))
        return found

    def choice(self, name: str, choices: Collection[str]) -> str | None:
        """Return one of the choices, or None."""
        sent = self.text(name)
        if sent and sent not in choices:
            detail = f'"{truncate(sent)}" is not supported. Expected one of: {", ".join(choices)}.'
            raise Invalid(detail, attr=self.attr(name), code="invalid_choice")
        return sent or None

    def text_list(self, name: str) -> list[str]:
        value = self.list_field(name)
        if not all(isinstance(each, str) for each in value):
            raise Invalid("Not a valid string.", attr=self.attr(name))
        return value
