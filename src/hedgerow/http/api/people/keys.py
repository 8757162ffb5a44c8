"""Personal API keys. A person manages its own keys, with a session or an all-access key. An owner
of the organization sees and revokes all keys. Every key can retrieve itself.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec
from annotated_types import MaxLen
from starlette.responses import Response

from hedgerow.errors import Forbidden, Invalid, NotFound
from hedgerow.http.auth.access import anywhere, recently
from hedgerow.http.auth.personal_key import CURRENT, NO_KEY_ACCESS
from hedgerow.http.call import Call
from hedgerow.http.endpoint import endpoint
from hedgerow.http.payload.fields import INT64_MAX, OMITTED, Between, Fields, Text
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib.clock import format_iso
from hedgerow.projects.directory import Directory
from hedgerow.projects.keys import MAX_LABEL_CHARS, IssuedKey, KeyRequest, Keys
from hedgerow.projects.model import KeyId, PersonalKey, ProjectId
from hedgerow.projects.scopes import ALL_SCOPES

# Every person manages its own keys, whatever its role.
OWN_KEYS = anywhere(ALL_SCOPES, is_personal=True)
CHANGE_KEYS = recently(OWN_KEYS)

Label = Annotated[str, Text(MAX_LABEL_CHARS)]
Scopes = Annotated[list[Annotated[str, Text(200)]], MaxLen(200)]
Organizations = Annotated[list[Annotated[str, Text(100)]], MaxLen(100)]
ProjectIds = Annotated[list[Annotated[ProjectId, Between(1, INT64_MAX)]], MaxLen(1000)]


class KeyDetail(msgspec.Struct, kw_only=True):
    """`value` is present only in the response that creates it. Hedgerow does not store it."""

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


# Clients send them back. With any other unknown field, such as a misspelled `scoped_teams`, a key
# could be unrestricted.
_READ_ONLY_FIELDS = frozenset(KeyDetail.__struct_fields__)


class NewKey(Fields):
    ignored_fields: ClassVar[frozenset[str] | None] = _READ_ONLY_FIELDS

    label: Label
    scopes: Scopes
    scoped_teams: ProjectIds | None = None
    scoped_organizations: Organizations | None = None


class KeyChange(Fields):
    ignored_fields: ClassVar[frozenset[str] | None] = _READ_ONLY_FIELDS

    label: Label = OMITTED
    scopes: Scopes = OMITTED
    scoped_teams: ProjectIds | None = None
    scoped_organizations: Organizations | None = None


def _render_key(key: PersonalKey, value: str | None = None) -> KeyDetail:
    return KeyDetail(
        id=key.id,
        label=key.label,
        value=value,
        mask_value=key.mask,
        created_at=format_iso(key.created_at),
        last_used_at=format_iso(key.last_used_at) if key.last_used_at else None,
        last_rolled_at=format_iso(key.last_rolled_at) if key.last_rolled_at else None,
        user_id=key.user_id,
        scopes=key.scopes,
        scoped_teams=key.project_ids,
        scoped_organizations=(),
    )


def _respond_with_value(key: IssuedKey, status: int) -> Response:
    return JsonResponse(_render_key(key.key, key.value), status_code=status)


def _check_organizations(call: Call, ids: list[str] | None) -> None:
    """Reject other organizations: an installation has one, and a key scoped to another one must not
    become unrestricted.
    """
    own = call.owner.organization.id
    if any(id != own for id in ids or ()):
        raise Invalid(
            f"Unknown organization. Expected only {own}, the organization of this installation.",
            attr="scoped_organizations",
            code="does_not_exist",
        )


class KeyEndpoints:
    tag = "Personal API keys"

    def __init__(self, directory: Directory, keys: Keys) -> None:
        self._directory = directory
        self._keys = keys

    @endpoint("GET", "/api/personal_api_keys/", access=OWN_KEYS, response=list[KeyDetail])
    async def list_keys(self, call: Call) -> Response:
        """List your personal API keys, newest first. For owners of the organization: all keys."""
        keys = [key for key in self._directory.list_keys() if _may_see(call, key)]
        return JsonResponse([_render_key(key) for key in keys])

    @endpoint(
        "POST",
        "/api/personal_api_keys/",
        access=CHANGE_KEYS,
        response=KeyDetail,
        status=201,
        body=NewKey,
    )
    async def create_key(self, call: Call) -> Response:
        """Create a key. Only this response contains its value."""
        fields = await call.body(NewKey)
        _check_organizations(call, fields.scoped_organizations)
        new_key = KeyRequest(
            label=fields.label,
            scopes=tuple(fields.scopes),
            project_ids=tuple(fields.scoped_teams or ()),
        )
        return _respond_with_value(
            await self._keys.issue(new_key, call.owner, call.actor, call.now), 201
        )

    @endpoint(
        "GET",
        "/api/personal_api_keys/{key_id}/",
        access=anywhere("", restricted_keys=True),
        response=KeyDetail,
    )
    async def retrieve_key(self, call: Call) -> Response:
        """Retrieve a key. `@current` is the key that sends the request."""
        return JsonResponse(_render_key(self._find(call)))

    @endpoint(
        "PATCH",
        "/api/personal_api_keys/{key_id}/",
        access=CHANGE_KEYS,
        response=KeyDetail,
        body=KeyChange,
    )
    async def change_key(self, call: Call) -> Response:
        """Update the label, scopes or projects of a key."""
        key = self._find_own(call)
        fields = await call.body(KeyChange)
        _check_organizations(call, fields.scoped_organizations)
        names = fields.model_fields_set
        changed = await self._keys.change(
            key.id,
            label=fields.label,
            scopes=tuple(fields.scopes) if "scopes" in names else None,
            project_ids=tuple(fields.scoped_teams or ()) if "scoped_teams" in names else None,
            actor=call.actor,
            now=call.now,
        )
        return JsonResponse(_render_key(changed))

    @endpoint(
        "POST",
        "/api/personal_api_keys/{key_id}/roll/",
        access=CHANGE_KEYS,
        response=KeyDetail,
    )
    async def roll_key(self, call: Call) -> Response:
        """Give a key a new value. The old value stops working."""
        key = self._find_own(call)
        return _respond_with_value(await self._keys.roll(key.id, call.actor, call.now), 200)

    @endpoint("DELETE", "/api/personal_api_keys/{key_id}/", access=CHANGE_KEYS, status=204)
    async def revoke_key(self, call: Call) -> Response:
        """Revoke a key. It stops working in all processes within a second."""
        key = self._find(call)
        await self._keys.revoke(key.id, call.actor, call.now)
        return no_content()

    def _find(self, call: Call) -> PersonalKey:
        key_id, caller = call.path_param("key_id"), call.caller
        id = caller.id if key_id == CURRENT else KeyId(key_id)
        if id != caller.id and not caller.has_all_scopes:
            raise Forbidden(NO_KEY_ACCESS)
        key = self._directory.get_key(id)
        if key is None or not _may_see(call, key):
            raise NotFound
        return key

    def _find_own(self, call: Call) -> PersonalKey:
        """Return a key whose value or rights change. With those of another person, the audit trail
        would name the wrong one."""
        key = self._find(call)
        if key.user_id != call.owner.id:
            raise Forbidden("This key belongs to another person. You can only revoke it.")
        return key


def _may_see(call: Call, key: PersonalKey) -> bool:
    return call.owner.is_owner or key.user_id == call.owner.id
