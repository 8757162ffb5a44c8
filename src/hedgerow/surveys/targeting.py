"""The flags of a survey: the internal flag selects everyone who neither answered nor dismissed it,
and an optional targeting flag selects chosen people. Both are on while the survey runs.
"""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.flags.edits import FlagFields, apply_fields
from hedgerow.flags.flags import build_flag_entry, describe_actor, new_flag
from hedgerow.flags.model import SURVEY_PREFIX, Flag, FlagDefinitions
from hedgerow.flags.store import FlagWrite
from hedgerow.flags.validate import condition_sets
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import Project
from hedgerow.surveys.model import Survey

# The key suffix of the internal flag.
INTERNAL_KEY_SUFFIX = "-custom"
COMPLETION_PROPERTIES = ("$survey_dismissed", "$survey_responded")


class TargetingFlags:
    """Creates and changes the flags of a survey on behalf of an actor."""

    def __init__(
        self, project: Project, definitions: FlagDefinitions, actor: Actor, now: datetime
    ) -> None:
        self._project = project
        self._definitions = definitions
        self._actor = actor
        self._now = now

    def create_internal(self, survey: Survey) -> FlagWrite:
        return self._create(survey, internal_filters(survey), INTERNAL_KEY_SUFFIX)

    def create_targeting(self, survey: Survey, filters: Any) -> FlagWrite:
        check_targeting_narrows(filters)
        return self._create(survey, filters, "")

    def update_internal(self, flag: Flag, before: Survey, after: Survey) -> FlagWrite | None:
        """Update the internal flag. A new iteration resets its filters; until then manual changes
        stay."""
        filters = (
            None if after.property_suffix == before.property_suffix else internal_filters(after)
        )
        return self._update(flag, FlagFields(filters=filters, active=after.is_running))

    def update_targeting(self, flag: Flag, after: Survey, filters: Any) -> FlagWrite | None:
        """Update the targeting flag. `filters` replace the given parts of its filters; None keeps
        them."""
        if filters is not None:
            check_targeting_narrows(filters)
            filters = {**flag.filters, **filters}
        return self._update(flag, FlagFields(filters=filters, active=after.is_running))

    def delete(self, flag: Flag) -> FlagWrite:
        return self._build_write(
            "deleted", flag, self._apply_fields(flag, FlagFields(deleted=True))
        )

    def _create(self, survey: Survey, filters: Any, ending: str) -> FlagWrite:
        fields = FlagFields(
            key=f"{SURVEY_PREFIX}{secrets.token_hex(5)}{ending}",
            name=f"Targeting flag for survey {survey.name}",
            filters=filters,
            active=survey.is_running,
        )
        flag = self._apply_fields(new_flag(self._project, self._actor, self._now), fields)
        return FlagWrite(
            flag=flag, build_entry=lambda flag: build_flag_entry("created", None, flag, self._actor)
        )

    def _update(self, flag: Flag, fields: FlagFields) -> FlagWrite | None:
        after = self._apply_fields(flag, fields)
        return None if after == flag else self._build_write("updated", flag, after)

    def _build_write(self, activity: str, before: Flag, after: Flag) -> FlagWrite:
        after = replace(
            after,
            version=before.version + 1,
            updated_at=self._now,
            last_modified_by=describe_actor(self._actor),
        )
        entry = build_flag_entry(activity, before, after, self._actor)
        return FlagWrite(flag=after, build_entry=lambda _: entry)

    def _apply_fields(self, flag: Flag, fields: FlagFields) -> Flag:
        """Apply the fields. Errors name the field of the survey."""
        try:
            return apply_fields(flag, fields, self._definitions, for_survey=True)
        except Invalid as error:
            if error.attr is None or not error.attr.startswith("filters"):
                raise
            raise Invalid(
                error.detail, attr=f"targeting_flag_{error.attr}", code=error.code
            ) from None


def internal_filters(survey: Survey) -> dict[str, Any]:
    return {
        "groups": [
            {
                "rollout_percentage": 100,
                "properties": [
                    {
                        "key": f"{name}/{survey.property_suffix}",
                        "value": "is_not_set",
                        "operator": "is_not_set",
                        "type": "person",
                    }
                    for name in COMPLETION_PROPERTIES
                ],
            }
        ]
    }


def check_targeting_narrows(filters: Mapping[str, Any]) -> None:
    if any(
        not group.get("properties") and group.get("rollout_percentage") in (None, 100)
        for group in condition_sets(filters)
    ):
        raise Invalid(
            "Invalid operation: User targeting rolls out to everyone. If you want to roll out to "
            "everyone, delete this targeting",
            attr="targeting_flag_filters",
        )
