"""The scopes of a personal API key: `*`, or `object:read` and `object:write`. Write includes
read.
"""

import difflib
from collections.abc import Collection, Iterable

from hedgerow.errors import Invalid
from hedgerow.lib.text import truncate

ALL_SCOPES = "*"

SCOPE_OBJECTS = frozenset(
    (
        "action",
        "activity_log",
        "alert",
        "annotation",
        "batch_export",
        "cohort",
        "dashboard",
        "early_access_feature",
        "element",
        "event_definition",
        "experiment",
        "export",
        "feature_flag",
        "group",
        "hog_function",
        "ingestion_warning",
        "insight",
        "notebook",
        "organization",
        "organization_member",
        "person",
        "plugin",
        "project",
        "property_definition",
        "query",
        "session_recording",
        "sharing_configuration",
        "subscription",
        "survey",
        "user",
        "webhook",
    )
)

ACTIONS = ("read", "write")
# The objects whose scope covers what users know by another name.
_SYNONYMS = {
    "component": "plugin",
    "destination": "plugin",
    "event": "query",
    "flag": "feature_flag",
    "import": "plugin",
    "key": ALL_SCOPES,
    "pipeline": "plugin",
    "transformation": "plugin",
}


def is_scope(text: str) -> bool:
    subject, _, action = text.partition(":")
    return text == ALL_SCOPES or (subject in SCOPE_OBJECTS and action in ACTIONS)


def validate_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes without duplicates. Raises Invalid for the first unknown scope."""
    unique = tuple(dict.fromkeys(scopes))
    if not unique:
        raise Invalid("This list may not be empty.", attr="scopes", code="empty")
    for scope in unique:
        if not is_scope(scope):
            raise Invalid(_describe_unknown(scope), attr="scopes")
    return unique


def _describe_unknown(scope: str) -> str:
    close = " or ".join(_suggest_scopes(scope))
    return (
        f"Invalid scope: {truncate(scope)}. {f'Did you mean {close}? ' if close else ''}Expected "
        f"{ALL_SCOPES} for everything, or one of these with :read or :write: "
        f"{', '.join(sorted(SCOPE_OBJECTS))}."
    )


def _suggest_scopes(scope: str) -> list[str]:
    """Return the scopes that a user may have meant: the closest object, with the given action if it
    is valid."""
    subject, _, action = scope.strip().lower()[:100].partition(":")
    subject = subject.replace("-", "_").replace(" ", "_")
    if not subject.strip("*"):
        return [ALL_SCOPES]
    found = _SYNONYMS.get(subject.removesuffix("s"))
    close = [found] if found else difflib.get_close_matches(subject, sorted(SCOPE_OBJECTS), n=1)
    if close == [ALL_SCOPES]:
        return close
    actions = (action,) if action in ACTIONS else ACTIONS
    return [f"{each}:{one}" for each in close for one in actions]


def is_allowed(granted: Collection[str], needed: str) -> bool:
    if ALL_SCOPES in granted or needed in granted:
        return True
    subject, _, action = needed.partition(":")
    return action == "read" and f"{subject}:write" in granted
