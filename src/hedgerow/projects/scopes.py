"""What a personal key may do: `*`, or `object:read` and `object:write`, where write implies
read.
"""

from collections.abc import Collection, Iterable

from hedgerow.errors import Invalid

ALL = "*"

OBJECTS = frozenset(
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
    return text == ALL or (subject in OBJECTS and action in ("read", "write"))


def checked(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes without repetition, or Invalid naming the first that is none."""
    wanted = tuple(dict.fromkeys(scopes))
    if not wanted:
        raise Invalid("This list may not be empty.", attr="scopes", code="empty")
    for scope in wanted:
        if not is_scope(scope):
            raise Invalid(f"Invalid scope: {scope}", attr="scopes")
    return wanted


def allows(granted: Collection[str], needed: str) -> bool:
    if ALL in granted or needed in granted:
        return True
    subject, _, action = needed.partition(":")
    return action == "read" and f"{subject}:write" in granted
