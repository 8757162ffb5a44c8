"""`/api/personal_api_keys/`: an all-access key manages keys; every key may look at itself."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from annotated_types import MaxLen
from fastapi import APIRouter
from starlette.responses import Response

from hedgerow.errors import Forbidden, Invalid, NotFound
from hedgerow.http.access import NO_KEY_ACCESS, Call, anywhere
from hedgerow.http.describe import describes
from hedgerow.http.fields import INT64_MAX, LEFT_OUT, Between, Fields, Text
from hedgerow.http.reply import JsonResponse, no_content
from hedgerow.lib.clock import iso
from hedgerow.projects.keys import LABEL_MAX, IssuedKey, KeyWish
from hedgerow.projects.model import KeyId, PersonalKey, ProjectId
from hedgerow.projects.scopes import ALL

router = APIRouter(prefix="/api/personal_api_keys", tags=["Personal API keys"])

CURRENT = "@current"

Label = Annotated[str, Text(LABEL_MAX)]
Scopes = Annotated[list[Annotated[str, Text(200)]], MaxLen(200)]
Organizations = Annotated[list[Annotated[str, Text(100)]], MaxLen(100)]
ProjectIds = Annotated[list[Annotated[ProjectId, Between(1, INT64_MAX)]], MaxLen(1000)]


class KeyDetail(msgspec.Struct, kw_only=True):
    """`value` is there only in the answer that makes it: it is stored nowhere."""

    id: str
    label: str
    value: str | None
    mask_value: str
    created_at: str
    last_used_at: str | None
    last_rolled_at: str | None
    user_id: int
    scopes: Sequence[str]
    scoped_teams: Sequence[int]
    scoped_organizations: Sequence[str]


class NewKey(Fields):
    label: Label
    scopes: Scopes
    scoped_teams: ProjectIds | None = None
    scoped_organizations: Organizations | None = None


class KeyChange(Fields):
    label: Label = LEFT_OUT
    scopes: Scopes = LEFT_OUT
    scoped_teams: ProjectIds | None = None
    scoped_organizations: Organizations | None = None


def detail(key: PersonalKey, value: str | None = None) -> KeyDetail:
    return KeyDetail(
        id=key.id,
        label=key.label,
        value=value,
        mask_value=key.mask,
        created_at=iso(key.created_at),
        last_used_at=iso(key.last_used_at) if key.last_used_at else None,
        last_rolled_at=iso(key.last_rolled_at) if key.last_rolled_at else None,
        user_id=key.user_id,
        scopes=key.scopes,
        scoped_teams=key.project_ids,
        scoped_organizations=(),
    )


def issued(key: IssuedKey, status: int) -> Response:
    return JsonResponse(detail(key.key, key.value), status_code=status)


@router.get("/")
@describes(answer=list[KeyDetail])
async def list_keys(call: Annotated[Call, anywhere(ALL)]) -> Response:
    """All keys, newest first."""
    return JsonResponse([detail(key) for key in call.rooms.directory.all_keys()])


@router.post("/")
@describes(answer=KeyDetail, status=201, body=NewKey)
async def create_key(call: Annotated[Call, anywhere(ALL)]) -> Response:
    """Make a key. Its value is in this answer and can never be read again."""
    fields = await call.body(NewKey)
    _check_organizations(call, fields.scoped_organizations)
    wish = KeyWish(
        label=fields.label,
        scopes=tuple(fields.scopes),
        project_ids=tuple(fields.scoped_teams or ()),
    )
    return issued(await call.rooms.keys.issue(wish, call.key.user_id, call.actor, call.now), 201)


@router.get("/{key_id}/")
@describes(answer=KeyDetail)
async def retrieve_key(
    key_id: str, call: Annotated[Call, anywhere("", restricted_keys=True)]
) -> Response:
    """One key. `@current` is the key that asks: what may I do?"""
    return JsonResponse(detail(_found(call, key_id)))


@router.patch("/{key_id}/")
@describes(answer=KeyDetail, body=KeyChange)
async def change_key(key_id: str, call: Annotated[Call, anywhere(ALL)]) -> Response:
    """Change a key's label, scopes or projects."""
    key = _found(call, key_id)
    fields = await call.body(KeyChange)
    _check_organizations(call, fields.scoped_organizations)
    given = fields.model_fields_set
    changed = await call.rooms.keys.change(
        key.id,
        label=fields.label,
        scopes=tuple(fields.scopes) if "scopes" in given else None,
        project_ids=tuple(fields.scoped_teams or ()) if "scoped_teams" in given else None,
        actor=call.actor,
        now=call.now,
    )
    return JsonResponse(detail(changed))


@router.post("/{key_id}/roll/")
@describes(answer=KeyDetail)
async def roll_key(key_id: str, call: Annotated[Call, anywhere(ALL)]) -> Response:
    """Give a key a new value; the old one stops working."""
    key = _found(call, key_id)
    return issued(await call.rooms.keys.roll(key.id, call.actor, call.now), 200)


@router.delete("/{key_id}/")
@describes(status=204)
async def revoke_key(key_id: str, call: Annotated[Call, anywhere(ALL)]) -> Response:
    """Revoke a key: it stops working everywhere within a second."""
    key = _found(call, key_id)
    await call.rooms.keys.revoke(key.id, call.actor, call.now)
    return no_content()


def _check_organizations(call: Call, ids: list[str] | None) -> None:
    """There is one organization, so a limit to it is no limit; one to another must not pass as
    none.
    """
    own = call.rooms.directory.user(call.key.user_id).organization.id
    if any(id != own for id in ids or ()):
        raise Invalid(
            "You must be a member of all organizations that you are scoping the key to.",
            attr="scoped_organizations",
        )


def _found(call: Call, key_id: str) -> PersonalKey:
    id = call.key.id if key_id == CURRENT else KeyId(key_id)
    if id != call.key.id and not (ALL in call.key.scopes and call.key.is_unrestricted):
        raise Forbidden(NO_KEY_ACCESS)
    key = call.rooms.directory.key(id)
    if key is None:
        raise NotFound
    return key
