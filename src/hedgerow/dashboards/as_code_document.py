"""The document of insights and dashboards as code: parse it, and build its items. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.dashboards.model import (
    DESCRIPTION_MAX_CHARS,
    EVERYONE_CAN_EDIT,
    MAX_LAYOUTS_BYTES,
    MAX_TAGS,
    MAX_TILES,
    NAME_MAX_CHARS,
    ONLY_COLLABORATORS_CAN_EDIT,
    TAG_MAX_CHARS,
    TILE_TEXT_MAX_CHARS,
    DashboardWithTiles,
    SavedInsight,
    ShownTile,
)
from hedgerow.errors import Invalid
from hedgerow.lib import jsonio
from hedgerow.projects.document import (
    ErrorLocation,
    check_field_names,
    check_no_env_reference,
    check_version,
)
from hedgerow.projects.validation import check_storable, validate_text

VERSION = 1
MAX_COLOR_CHARS = 400
# Not only digits: those are the id of an insight.
_SHORT_ID = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9_-]{1,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightSpec:
    """An insight as the document describes it. `fields` are fields of SavedInsight."""

    place: str
    short_id: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardSpec:
    """A dashboard as the document describes it. `fields` are fields of Dashboard. A tile has an
    `insight` or a `text`, and `layouts` and `color` if they are not the default."""

    place: str
    name: str
    fields: Mapping[str, Any]
    tiles: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardDocument:
    insights: Sequence[InsightSpec]
    dashboards: Sequence[DashboardSpec]


def parse_document(value: Any) -> DashboardDocument:
    """Parse a document. Invalid names the path of an error."""
    if not isinstance(value, dict):
        raise Invalid("Expected an object with `version`, `insights` and `dashboards`.")
    check_field_names(value, ("version", "insights", "dashboards"), None)
    check_version(value, VERSION)
    check_no_env_reference(value, "version", "`!env` cannot be used in dashboards.")
    insights = [_parse_insight(*each) for each in _list_items(value, "insights")]
    dashboards = [_parse_dashboard(*each) for each in _list_items(value, "dashboards")]
    _check_unique([(each.short_id, each.place) for each in insights])
    _check_unique([(each.name, each.place) for each in dashboards])
    return DashboardDocument(insights=insights, dashboards=dashboards)


def _list_items(value: Mapping[str, Any], section: str) -> list[tuple[dict[str, Any], str]]:
    items = value.get(section) or []
    if not isinstance(items, list):
        raise Invalid(f"Expected a list of {section}.", attr=section)
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            raise Invalid("Expected an object.", attr=f"{section}[{number}]")
    return [(item, f"{section}[{number}]") for number, item in enumerate(items)]


def _check_unique(named: Sequence[tuple[str, str]]) -> None:
    found: dict[str, str] = {}
    for name, place in named:
        if name in found:
            raise Invalid(f"{found[name]} is the same.", attr=place)
        found[name] = place


def _parse_insight(item: Mapping[str, Any], place: str) -> InsightSpec:
    short_id = item.get("short_id")
    if not isinstance(short_id, str) or not _SHORT_ID.fullmatch(short_id):
        detail = (
            "Expected 1 to 40 letters, digits, hyphens and underscores, with at least one letter."
        )
        raise Invalid(detail, attr=f"{place}: short_id")
    place = f"{place} ({short_id})"
    return InsightSpec(
        place=place,
        short_id=short_id,
        fields=_parse_fields(item, _INSIGHT_FIELDS, ("short_id",), place),
    )


def _parse_dashboard(item: Mapping[str, Any], place: str) -> DashboardSpec:
    with ErrorLocation(place):
        name = _parse_text(NAME_MAX_CHARS, is_blank_allowed=False)(item.get("name"))
    place = f"{place} ({name})"
    tiles = item.get("tiles") or []
    if not isinstance(tiles, list) or len(tiles) > MAX_TILES:
        raise Invalid(f"Expected a list of at most {MAX_TILES} tiles.", attr=f"{place}: tiles")
    parsed = [_parse_tile(each, f"{place}: tiles[{n}]") for n, each in enumerate(tiles)]
    _check_unique(
        [
            (each["insight"], f"{place}: tiles[{number}]")
            for number, each in enumerate(parsed)
            if "insight" in each
        ]
    )
    return DashboardSpec(
        place=place,
        name=name,
        fields=_parse_fields(item, _DASHBOARD_FIELDS, ("name", "tiles"), place),
        tiles=parsed,
    )


def _parse_tile(item: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(item, dict):
        raise Invalid("Expected an object with `insight` or `text`.", attr=place)
    check_field_names(item, ("insight", "text", "layouts", "color"), place)
    if ("insight" in item) == ("text" in item):
        raise Invalid("Expected either `insight` or `text`.", attr=place)
    tile: dict[str, Any] = {}
    with ErrorLocation(place):
        if "insight" in item:
            tile["insight"] = _parse_text(NAME_MAX_CHARS, is_blank_allowed=False)(item["insight"])
        else:
            text = _parse_text(TILE_TEXT_MAX_CHARS, is_blank_allowed=False)(item["text"])
            tile["text"] = text
        if item.get("layouts"):
            tile["layouts"] = _parse_layouts(item["layouts"])
        if item.get("color") is not None:
            color = _parse_text(MAX_COLOR_CHARS, is_blank_allowed=False)(item["color"])
            tile["color"] = color
    return tile


Parsers = Mapping[str, tuple[Any, Callable[[Any], Any]]]


def _parse_fields(
    item: Mapping[str, Any], parsers: Parsers, others: Sequence[str], place: str
) -> dict[str, Any]:
    check_field_names(item, (*others, *parsers), place)
    fields = {}
    for name, (default, parse) in parsers.items():
        value = item.get(name)
        with ErrorLocation(f"{place}: {name}"):
            fields[name] = default if value is None else parse(value)
    return fields


def _parse_text(max_chars: int, *, is_blank_allowed: bool = True) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if not isinstance(value, str):
            raise Invalid("Expected a string: put the value in quotes.")
        if is_blank_allowed and not value.strip():
            return ""
        return validate_text("", value, max_chars)

    return parse


def _parse_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Invalid("Must be true or false.")
    return value


def _parse_tags(value: Any) -> list[str]:
    if not isinstance(value, list) or len(value) > MAX_TAGS:
        raise Invalid(f"Expected a list of at most {MAX_TAGS} strings.")
    parse = _parse_text(TAG_MAX_CHARS, is_blank_allowed=False)
    return list(dict.fromkeys(parse(each) for each in value))


def _parse_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Invalid("Expected an object.")
    check_storable(value, "")
    return value


def _parse_layouts(value: Any) -> dict[str, Any]:
    layouts = _parse_object(value)
    if len(jsonio.encode(layouts)) > MAX_LAYOUTS_BYTES:
        raise Invalid(f"The layouts of a tile have at most {MAX_LAYOUTS_BYTES} bytes.")
    return layouts


def _parse_restriction(value: Any) -> int:
    known = (EVERYONE_CAN_EDIT, ONLY_COLLABORATORS_CAN_EDIT)
    if isinstance(value, bool) or value not in known:
        raise Invalid(f"Expected one of: {', '.join(map(str, known))}.")
    return int(value)


_INSIGHT_FIELDS: Parsers = {
    "name": ("", _parse_text(NAME_MAX_CHARS)),
    "description": ("", _parse_text(DESCRIPTION_MAX_CHARS)),
    "favorited": (False, _parse_boolean),
    "tags": ([], _parse_tags),
    "query": ({}, _parse_object),
}
_DASHBOARD_FIELDS: Parsers = {
    "description": ("", _parse_text(DESCRIPTION_MAX_CHARS)),
    "pinned": (False, _parse_boolean),
    "tags": ([], _parse_tags),
    "filters": ({}, _parse_object),
    "restriction_level": (EVERYONE_CAN_EDIT, _parse_restriction),
}


def build_insight_item(insight: SavedInsight) -> dict[str, Any]:
    """Return the identity and the fields that differ from their defaults."""
    return {"short_id": insight.short_id, **_list_set_fields(insight, _INSIGHT_FIELDS)}


def build_dashboard_item(shown: DashboardWithTiles) -> dict[str, Any]:
    item = {"name": shown.dashboard.name, **_list_set_fields(shown.dashboard, _DASHBOARD_FIELDS)}
    if shown.tiles:
        item["tiles"] = [build_tile_item(each) for each in shown.tiles]
    return item


def build_tile_item(shown: ShownTile) -> dict[str, Any]:
    tile = shown.tile
    item: dict[str, Any] = {"text": tile.text}
    if shown.insight is not None:
        item = {"insight": shown.insight.insight.short_id}
    if tile.layouts:
        item["layouts"] = dict(tile.layouts)
    if tile.color is not None:
        item["color"] = tile.color
    return item


def _list_set_fields(of: Any, parsers: Parsers) -> dict[str, Any]:
    found = {}
    for name, (default, _) in parsers.items():
        value = getattr(of, name)
        value = list(value) if isinstance(value, tuple) else value
        if value != default:
            found[name] = value
    return found
