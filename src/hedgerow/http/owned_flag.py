"""A flag as the record of what owns it shows it."""

from typing import Any

import msgspec

from hedgerow.flags.model import Flag
from hedgerow.flags.payloads import shown_filters


class OwnedFlag(msgspec.Struct, kw_only=True):
    """A flag in short."""

    id: int
    team_id: int
    name: str
    key: str
    filters: Any
    deleted: bool
    active: bool
    ensure_experience_continuity: bool
    version: int


def owned_flag(flag: Flag) -> OwnedFlag:
    return OwnedFlag(
        id=flag.id,
        team_id=flag.project_id,
        name=flag.name,
        key=flag.key,
        filters=shown_filters(flag),
        deleted=flag.deleted,
        active=flag.active,
        ensure_experience_continuity=flag.ensure_experience_continuity,
        version=flag.version,
    )
