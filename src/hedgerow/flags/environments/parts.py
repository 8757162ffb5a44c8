"""The parts of a flag that are compared and promoted, such as its conditions. Pure.

Flags of two projects are compared as documents, in which cohorts, other flags and group types have
names instead of ids.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from hedgerow.flags.as_code.document import build_item
from hedgerow.flags.as_code.references import Rewrite
from hedgerow.flags.model import Flag
from hedgerow.flags.payloads import redact_filters
from hedgerow.flags.validate import condition_sets, get_variants
from hedgerow.lib import jsonio

# In the order in which differences are listed.
Part = Literal["active", "conditions", "variants", "payloads", "name", "tags", "settings"]
PARTS: tuple[Part, ...] = get_args(Part)

Item = Mapping[str, Any]

_FILTERS = "filters"
_ENCRYPTED = "has_encrypted_payloads"
_PART_OF_FIELD = {"active": "active", "archived": "active", "name": "name", "tags": "tags"}
_PART_OF_FILTERS = {"multivariate": "variants", "payloads": "payloads"}
MAX_DESCRIBED = 3


def find_part(field: str) -> str:
    """Return the part that a field belongs to. `field` may be a path, as in a list of changes."""
    top, _, rest = field.partition(".")
    if top != _FILTERS:
        return _PART_OF_FIELD.get(top.partition("[")[0], "settings")
    inner = rest.partition(".")[0].partition("[")[0]
    return _PART_OF_FILTERS.get(inner, "conditions")


def build_shown_item(flag: Flag, rewrite: Rewrite) -> Item:
    """Return a flag as it is compared and shown, without encrypted payloads."""
    item = build_item(replace(flag, filters=redact_filters(flag)), rewrite)
    return {**item, _ENCRYPTED: True} if flag.has_encrypted_payloads else item


def split_parts(item: Item) -> dict[str, dict[str, Any]]:
    """Return the fields of each part."""
    parts: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    for field, value in item.items():
        if field == _FILTERS and isinstance(value, Mapping):
            for name, inner in value.items():
                path = f"{_FILTERS}.{name}"
                parts[find_part(path)][path] = inner
        elif field != "key":
            parts[find_part(field)][field] = value
    return parts


def digest_parts(item: Item) -> tuple[int, ...]:
    """Return a number for each part, by which parts are compared."""
    parts = split_parts(item)
    return tuple(hash(jsonio.encode_canonical(parts[part])) for part in PARTS)


def merge_parts(target: Item, source: Item, parts: Collection[str]) -> dict[str, Any]:
    """Return the target with these parts of the source."""
    merged: dict[str, Any] = {"key": target["key"]}
    own, new = split_parts(target), split_parts(source)
    filters: dict[str, Any] = {}
    for part in PARTS:
        for path, value in (new if part in parts else own)[part].items():
            if path.startswith(f"{_FILTERS}."):
                filters[path.removeprefix(f"{_FILTERS}.")] = value
            else:
                merged[path] = value
    return {**merged, _FILTERS: filters}


def describe_rollout(flag: Flag) -> str:
    """Say in words who gets the flag: "25 % of everyone", "100 % of people who match 2 filters"."""
    groups = condition_sets(flag.filters)
    if not groups:
        return "no conditions"
    texts = [_describe_group(group) for group in groups[:MAX_DESCRIBED]]
    if len(groups) > MAX_DESCRIBED:
        texts.append(f"{len(groups) - MAX_DESCRIBED} more")
    text = "; ".join(texts)
    variants = get_variants(flag.filters)
    if not variants:
        return text
    named = [f"{each.get('key')} {_format(each)}" for each in variants[:MAX_DESCRIBED]]
    if len(variants) > MAX_DESCRIBED:
        named.append(f"{len(variants) - MAX_DESCRIBED} more")
    return f"{text} ({', '.join(named)})"


def _describe_group(group: Mapping[str, Any]) -> str:
    filters = group.get("properties")
    number = len(filters) if isinstance(filters, list) else 0
    share = _format(group)
    if not number:
        return f"{share} of everyone"
    return f"{share} of those who match {number} filter{'' if number == 1 else 's'}"


def _format(holder: Mapping[str, Any]) -> str:
    percent = holder.get("rollout_percentage")
    is_number = isinstance(percent, int | float) and not isinstance(percent, bool)
    return f"{percent if is_number else 100:g} %"
