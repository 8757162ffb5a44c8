"""Query parameters: how the API documents them, and how endpoints read common types."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.lib.text import explain_unstorable, truncate


@dataclass(frozen=True, slots=True)
class Parameter:
    """A documented query parameter. Endpoints read its text with `call.query_param(name)`."""

    name: str
    description: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})


DELETION_STATUS = Parameter("status", "Only deletions with this status: pending, completed or all.")


def parse_deletion_status(text: str | None) -> bool | None:
    """Return whether completed or pending deletions are wanted, None for both."""
    choices = {"pending": False, "completed": True, "all": None}
    if text and text not in choices:
        detail = f"Expected one of: {', '.join(choices)}."
        raise Invalid(detail, attr="status", code="invalid_choice")
    return choices[text] if text else None


def parse_boolean(text: str | None, attr: str) -> bool | None:
    """Return None for an absent or empty parameter."""
    if not text:
        return None
    if text.lower() not in ("true", "false"):
        raise Invalid("Must be a valid boolean.", attr=attr)
    return text.lower() == "true"


def parse_positive(text: str | None) -> int | None:
    """Return a whole number above zero, or None for any other text. Never raises."""
    text = (text or "").strip()
    return int(text[:30]) or None if text.isascii() and text.isdecimal() else None


def parse_text(text: str | None, attr: str) -> str:
    """Return a text that the database can store; empty for an absent parameter."""
    if text and (problem := explain_unstorable(text)):
        code, detail = problem
        raise Invalid(detail, attr=attr, code=code)
    return text or ""


def parse_choice(text: str | None, attr: str, choices: Collection[str]) -> str | None:
    """Return one of `choices`, or None for an absent or empty parameter."""
    if not text:
        return None
    if text not in choices:
        detail = f'"{truncate(text)}" is not a valid choice.'
        raise Invalid(detail, attr=attr, code="invalid_choice")
    return text
