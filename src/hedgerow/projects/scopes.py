"""The scopes of a personal API key: `*`, or `object:read` and `object:write`. Write includes
read.
"""

from collections.abc import Collection, Iterable

from hedgerow.errors import Invalid

ALL_SCOPES = "*"

SCOPE_OBJECTS = frozenset(
    (
        "action",
        "activity_log",
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


def is_scope(text: str) -> bool:
    subject, _, action = text.partition(":")
    return text == ALL_SCOPES or (subject in SCOPE_OBJECTS and action in ("read", "write"))


def validate_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes without duplicates. Raises Invalid for the first unknown scope."""
    unique = tuple(dict.fromkeys(scopes))
    if not unique:
        raise Invalid("This list may not be empty.", attr="scopes", code="empty")
    for scope in unique:
        if not is_scope(scope):
            raise Invalid(f"Invalid scope: {scope}", attr="scopes")
    return unique


def is_allowed(granted: Collection[str], needed: str) -> bool:
    if ALL_SCOPES in granted or needed in granted:
        return True
    subject, _, action = needed.partition(":")
    return action == "read" and f"{subject}:write" in granted
