"""The fields of a query as a client sends it. Invalid names the one that cannot be read."""

from collections.abc import Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib.text import why_unstorable


class Sent:
    """`place` is where it stood, for messages."""

    def __init__(self, fields: Mapping[str, Any], place: str = "query") -> None:
        self._fields = fields
        self._place = place

    def attr(self, name: str) -> str:
        return f"{self._place}__{name}"

    def text(self, name: str) -> str:
        """Empty if it is not there."""
        sent = self._fields.get(name)
        if sent is None:
            return ""
        if not isinstance(sent, str):
            raise Invalid("Not a valid string.", attr=self.attr(name))
        if unstorable := why_unstorable(sent):
            raise Invalid(unstorable[1], attr=self.attr(name), code=unstorable[0])
        return sent

    def truth(self, name: str) -> bool:
        sent = self._fields.get(name)
        if sent is not None and not isinstance(sent, bool):
            raise Invalid("Must be a valid boolean.", attr=self.attr(name))
        return bool(sent)

    def mapping(self, name: str) -> Mapping[str, Any]:
        sent = self._fields.get(name)
        if sent is None:
            return {}
        if not isinstance(sent, dict):
            detail = f'Expected a dictionary of items but got type "{type(sent).__name__}".'
            raise Invalid(detail, attr=self.attr(name), code="not_a_dict")
        return sent

    def items(self, name: str) -> list[Any]:
        sent = self._fields.get(name)
        if sent is None:
            return []
        if not isinstance(sent, list):
            detail = f'Expected a list of items but got type "{type(sent).__name__}".'
            raise Invalid(detail, attr=self.attr(name), code="not_a_list")
        return sent

    def whole(self, name: str) -> int | None:
        sent = self._fields.get(name)
        if sent is None:
            return None
        if isinstance(sent, bool) or not isinstance(sent, int):
            raise Invalid("A valid integer is required.", attr=self.attr(name))
        return sent

    def texts(self, name: str) -> list[str]:
        sent = self.items(name)
        if not all(isinstance(each, str) for each in sent):
            raise Invalid("Not a valid string.", attr=self.attr(name))
        return sent
