"""Flag definitions, and the outcome of an evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType

from hedgerow.persons.model import Cohort
from hedgerow.projects.model import ProjectId

FlagId = NewType("FlagId", int)

KEY_MAX_CHARS = 400
MAX_FLAGS = 2000
MAX_PROJECT_BYTES = 8 << 20
TOO_MANY_FLAGS = f"A project can have at most {MAX_FLAGS} flags, including those of surveys."
# Replaces an encrypted payload in every response. It is JSON text itself.
REDACTED = '"********* (encrypted)"'
# The reserved key prefix of flags that surveys manage.
SURVEY_PREFIX = "survey-targeting-"


class Runtime(StrEnum):
    """Where a flag can be evaluated."""

    ALL = "all"
    CLIENT = "client"
    SERVER = "server"


class Bucketing(StrEnum):
    """The identifier that rollouts are based on."""

    DISTINCT_ID = "distinct_id"
    DEVICE_ID = "device_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """`filters` is PostHog's document as it is stored: conditions, variants, payloads."""

    id: FlagId
    project_id: ProjectId
    key: str
    name: str
    filters: Mapping[str, Any]
    active: bool
    deleted: bool
    archived: bool
    version: int
    ensure_experience_continuity: bool
    is_remote_configuration: bool
    has_encrypted_payloads: bool
    evaluation_runtime: Runtime
    bucketing_identifier: Bucketing
    evaluation_contexts: Sequence[str]
    tags: Sequence[str]
    created_by: str
    last_modified_by: str
    created_at: datetime
    updated_at: datetime
    last_called_at: datetime | None
    # Whom to ask about it: emails or names of teams.
    owners: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagDefinitions:
    """Everything that the evaluation of a project's flags depends on, at one generation."""

    generation: int
    flags: Sequence[Flag]
    cohorts: Sequence[Cohort]
    group_types: Mapping[str, int]
    timezone: str
    # The behaviors that are counted, by the reference of filters.
    behaviors: Mapping[str, int] = field(default_factory=dict)


class Reason(StrEnum):
    SUPER_CONDITION = "super_condition_value"
    HOLDOUT = "holdout_condition_value"
    MATCH = "condition_match"
    OUT_OF_ROLLOUT = "out_of_rollout_bound"
    NO_MATCH = "no_condition_match"
    NO_GROUP_TYPE = "no_group_type"
    DISABLED = "flag_disabled"
    MISSING_DEPENDENCY = "missing_dependency"
    FAILED = "evaluation_failed"

    def description(self, condition_index: int | None) -> str:
        if self is Reason.MATCH and condition_index is not None:
            return f"Matched condition set {condition_index + 1}"
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    Reason.SUPER_CONDITION: "Super condition value",
    Reason.HOLDOUT: "Holdout condition value",
    Reason.MATCH: "Matched condition set",
    Reason.OUT_OF_ROLLOUT: "Out of rollout bound",
    Reason.NO_MATCH: "No matching condition set",
    Reason.NO_GROUP_TYPE: "No group type",
    Reason.DISABLED: "Feature flag is disabled",
    Reason.MISSING_DEPENDENCY: "Flag cannot be evaluated due to missing dependency",
    Reason.FAILED: "Flag cannot be evaluated",
}


class FlagOutcome:
    """The result of one flag. All possible outcomes of a flag are created when it is compiled."""

    __slots__ = (
        "condition_index",
        "detail_part",
        "error",
        "flag",
        "payload",
        "payload_part",
        "reason",
        "value",
        "value_part",
    )

    def __init__(
        self,
        flag: Flag,
        value: bool | str,
        reason: Reason,
        condition_index: int | None = None,
        error: str = "",
    ) -> None:
        self.flag = flag
        self.value = value
        self.reason = reason
        self.condition_index = condition_index
        self.error = error
        self.payload = _payload(flag, value)
        # Encoded parts of responses, filled in on first use.
        self.value_part: bytes | None = None
        self.payload_part: bytes | None = None
        self.detail_part: bytes | None = None

    @property
    def variant(self) -> str | None:
        return self.value if isinstance(self.value, str) else None

    @property
    def has_failed(self) -> bool:
        return self.reason is Reason.FAILED


def _payload(flag: Flag, value: bool | str) -> Any:
    filters: Any = flag.filters  # stored filters may be invalid
    payloads = filters.get("payloads") if isinstance(filters, dict) else None
    if value is False or not isinstance(payloads, dict):
        return None
    payload = payloads.get(value if isinstance(value, str) else "true")
    return REDACTED if flag.has_encrypted_payloads and payload is not None else payload
