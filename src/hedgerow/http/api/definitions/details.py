"""What the definitions of events and of properties have in common: body fields and parameters."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from hedgerow.definitions.model import (
    DESCRIPTION_MAX_CHARS,
    MAX_TAGS,
    TAG_MAX_CHARS,
    EventDefinition,
    PropertyDefinition,
)
from hedgerow.errors import Invalid, NotFound
from hedgerow.http.api.people.users import render_user
from hedgerow.http.call import ProjectCall
from hedgerow.http.parameters import Parameter, parse_boolean, parse_text
from hedgerow.http.payload.fields import Boolean, Fields, Text
from hedgerow.lib import jsonio
from hedgerow.lib.clock import format_iso

MAX_NAMES = 1000
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

BOOLEAN = {"type": "boolean"}
SEARCH = Parameter("search", "Only names that contain all words of this text.")
COMMON_PARAMETERS = (
    SEARCH,
    Parameter("verified", "Only definitions that are verified, or that are not.", BOOLEAN),
    Parameter("exclude_hidden", "Leave out hidden definitions.", BOOLEAN),
    Parameter("tags", "Only definitions with all of these tags: a JSON list, or with commas."),
)


class DetailsBody(Fields):
    """A definition cannot be both verified and hidden."""

    description: Annotated[str, Text(DESCRIPTION_MAX_CHARS, blank=True)] | None = None
    tags: list[Annotated[str, Text(TAG_MAX_CHARS)]] | None = None
    verified: Boolean | None = None
    hidden: Boolean | None = None

    def to_details(self) -> dict[str, Any]:
        """Return the fields that were sent. A null clears a text or a list."""
        sent: dict[str, Any] = {}
        if "description" in self.model_fields_set:
            sent["description"] = self.description or ""
        if "tags" in self.model_fields_set:
            sent["tags"] = tuple(dict.fromkeys(self.tags or ()))
            if len(sent["tags"]) > MAX_TAGS:
                detail = f"Ensure this field has no more than {MAX_TAGS} elements."
                raise Invalid(detail, attr="tags", code="max_length")
        for name in ("verified", "hidden"):
            if getattr(self, name) is not None:
                sent[name] = getattr(self, name)
        return sent


def parse_id(call: ProjectCall, name: str, reserved: Mapping[str, str]) -> str:
    id = call.path_param(name, reserved)
    if not _UUID.fullmatch(id):
        raise NotFound
    return id.lower()


def parse_names(call: ProjectCall, name: str) -> list[str] | None:
    """Return the texts of a parameter: a JSON list, or separated by commas. None if it is absent or
    empty."""
    text = parse_text(call.query_param(name), name).strip()
    if not text:
        return None
    found: Any = [part.strip() for part in text.split(",")]
    if text.startswith("["):
        try:
            found = jsonio.parse(text.encode())
        except jsonio.JsonError as error:
            raise Invalid(str(error), attr=name) from None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise Invalid('Expected a JSON list of strings, such as ["a", "b"].', attr=name)
    if len(found) > MAX_NAMES:
        raise Invalid(f"Expected at most {MAX_NAMES:,} names.", attr=name, code="max_length")
    for each in found:
        parse_text(each, name)
    return found


def parse_common(call: ProjectCall) -> dict[str, Any]:
    """Return the fields of a query that both lists have."""
    return {
        "search": parse_text(call.query_param("search"), "search"),
        "verified": parse_boolean(call.query_param("verified"), "verified"),
        "includes_hidden": not parse_boolean(call.query_param("exclude_hidden"), "exclude_hidden"),
        "tags": parse_names(call, "tags") or (),
        "limit": call.window.limit,
        "offset": call.window.offset,
    }


def render_details(
    call: ProjectCall, definition: EventDefinition | PropertyDefinition
) -> dict[str, Any]:
    """Return the fields that the definitions of events and of properties have in common."""
    return {
        "id": definition.id,
        "name": definition.name,
        "description": definition.description,
        "tags": definition.tags,
        "created_at": format_iso(definition.created_at),
        "updated_at": format_iso(definition.updated_at),
        "updated_by": _render_author(call, definition.updated_by),
        "first_seen_at": _format_moment(definition.first_seen_at),
        "last_seen_at": _format_moment(definition.last_seen_at),
        "verified": definition.verified,
        "verified_at": _format_moment(definition.verified_at),
        "verified_by": _render_author(call, definition.verified_by),
        "hidden": definition.hidden,
    }


def parse_name(call: ProjectCall) -> str:
    """Return the parameter `name`, which is required."""
    name = parse_text(call.query_param("name"), "name")
    if not name:
        raise Invalid("This parameter is required.", attr="name", code="required")
    return name


def _render_author(call: ProjectCall, email: str | None) -> Mapping[str, Any] | None:
    return None if email is None else render_user(call, email)


def check_name(sent: str | None, definition: EventDefinition | PropertyDefinition) -> None:
    """A client that sends a whole definition back sends its name, too."""
    if sent is not None and sent != definition.name:
        detail = "A definition cannot be renamed: its name is the one in the events."
        raise Invalid(detail, attr="name")


def _format_moment(moment: datetime | None) -> str | None:
    return None if moment is None else format_iso(moment)
