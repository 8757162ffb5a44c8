"""The roles of members in a project: sets of scopes. Three exist in every installation; an
organization can define others.
"""

from collections.abc import Iterable, Mapping

from hedgerow.projects.model import Role
from hedgerow.projects.scopes import ACTIONS, SCOPE_OBJECTS

# What an editor changes. The rest runs code on web pages, sends data elsewhere, or changes data of
# persons, so that it needs an administrator.
EDITED = (
    "action",
    "annotation",
    "cohort",
    "dashboard",
    "early_access_feature",
    "event_definition",
    "experiment",
    "export",
    "feature_flag",
    "insight",
    "notebook",
    "property_definition",
    "query",
    "survey",
)
# The audit trail of a project, and what concerns the whole organization.
NOT_VIEWED = ("activity_log", "organization", "organization_member", "user")

_READS = frozenset(f"{each}:read" for each in SCOPE_OBJECTS if each not in NOT_VIEWED)
_EDITS = frozenset(f"{each}:write" for each in EDITED)
_EVERYTHING = frozenset(f"{each}:{action}" for each in SCOPE_OBJECTS for action in ACTIONS)

BUILT_IN_ROLES: Mapping[str, Role] = {
    role.id: role
    for role in (
        Role(id="viewer", name="Viewer", scopes=_READS),
        Role(id="editor", name="Editor", scopes=_READS | _EDITS),
        Role(id="admin", name="Admin", scopes=_EVERYTHING),
    )
}


def combine_roles(defined: Iterable[Role]) -> dict[str, Role]:
    """Return all roles of an installation by id."""
    return {**BUILT_IN_ROLES, **{role.id: role for role in defined}}
