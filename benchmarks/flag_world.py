"""Fifty flags and as many people as one likes: the world that flags are measured in.

Flags have one condition each, about a country, an email address or an age in turn, and go out to
10, 20, ... 100 %. Every fifth has three variants with payloads.
"""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import insert

from hedgerow.flags.model import Bucketing, Flag, FlagDefinitions, FlagId, Runtime
from hedgerow.lib import jsonio
from hedgerow.projects.model import ProjectId
from hedgerow.storage import tables
from hedgerow.storage.connect import DatabaseLocation, create_sync_engine
from hedgerow.storage.engine import generations
from hedgerow.storage.flags.flags import flag_topic

PROJECT = ProjectId(1)
FLAGS = 50
COUNTRIES = ("DE", "FR", "US", "GB", "NO", "BR", "IN")
VARIANTS = {"control": (34, "blue"), "test": (33, "red"), "alt": (33, "green")}
MADE_AT = datetime(2026, 1, 1, tzinfo=UTC)

_ASKED: Sequence[tuple[str, str, Any]] = (
    ("country", "exact", list(COUNTRIES[:5])),
    ("email", "regex", r"@example\.com$"),
    ("age", "gte", "21"),
)


def filters(number: int) -> dict[str, Any]:
    key, operator, value = _ASKED[number % len(_ASKED)]
    filter_ = {"key": key, "operator": operator, "value": value, "type": "person"}
    percentage = 10 + number % 10 * 10
    made: dict[str, Any] = {"groups": [{"properties": [filter_], "rollout_percentage": percentage}]}
    if number % 5 == 0:
        made["multivariate"] = {
            "variants": [
                {"key": variant, "rollout_percentage": share}
                for variant, (share, _) in VARIANTS.items()
            ]
        }
        made["payloads"] = {
            variant: jsonio.encode({"color": color, "n": number}).decode()
            for variant, (_, color) in VARIANTS.items()
        }
    return made


def bodies(count: int = FLAGS) -> list[dict[str, Any]]:
    """The flags as one would post them."""
    return [
        {"key": key, "name": key, "active": True, "filters": filters(number)}
        for number in range(count)
        for key in [f"flag-{number:02}"]
    ]


def flags(count: int = FLAGS) -> list[Flag]:
    return [
        Flag(
            id=FlagId(id),
            project_id=PROJECT,
            **body,
            deleted=False,
            archived=False,
            version=1,
            ensure_experience_continuity=False,
            is_remote_configuration=False,
            has_encrypted_payloads=False,
            evaluation_runtime=Runtime.ALL,
            bucketing_identifier=Bucketing.DISTINCT_ID,
            evaluation_contexts=(),
            tags=(),
            created_by="",
            last_modified_by="",
            created_at=MADE_AT,
            updated_at=MADE_AT,
            last_called_at=None,
        )
        for id, body in enumerate(bodies(count), start=1)
    ]


def definitions(count: int = FLAGS) -> FlagDefinitions:
    return FlagDefinitions(
        generation=1, flags=flags(count), cohorts=(), group_types={}, timezone="UTC"
    )


def distinct_id(number: int) -> str:
    return f"user-{number}"


def properties(number: int) -> dict[str, Any]:
    """Seven countries, two domains and 61 ages, which all meet each other."""
    domain = "example.com" if number % 2 else "other.org"
    return {
        "country": COUNTRIES[number % len(COUNTRIES)],
        "email": f"user{number}@{domain}",
        "age": 10 + number % 61,
    }


def fill(data: str, *, flag_count: int, person_count: int) -> None:
    """Store the world in the database of a server that has not served flags yet."""
    place = DatabaseLocation(url="", path=Path(data) / "hedgerow.db", timeout_s=5)
    people = range(1, person_count + 1)
    with create_sync_engine(place).begin() as connection:
        connection.execute(insert(tables.flags), [asdict(flag) for flag in flags(flag_count)])
        generations.advance(connection, flag_topic(PROJECT))
        if not people:
            return
        connection.execute(
            insert(tables.persons),
            [
                {
                    "id": number,
                    "project_id": PROJECT,
                    "uuid": str(UUID(int=number)),
                    "properties": properties(number),
                    "created_at": MADE_AT,
                    "updated_at": MADE_AT,
                }
                for number in people
            ],
        )
        connection.execute(
            insert(tables.person_distinct_ids),
            [
                {"project_id": PROJECT, "distinct_id": distinct_id(number), "person_id": number}
                for number in people
            ],
        )
