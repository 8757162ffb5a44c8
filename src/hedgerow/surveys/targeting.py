"""The flags of a survey. One it always has: everybody who neither answered nor dismissed it. One
for chosen people it may have besides. Both are on while the survey runs.
"""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.flags.edits import FlagFields, checked
from hedgerow.flags.flags import blank_flag, entry_of, person_of
from hedgerow.flags.model import SURVEY_PREFIX, Definitions, Flag
from hedgerow.flags.rules import condition_sets
from hedgerow.flags.store import FlagWrite
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import Project
from hedgerow.surveys.model import Survey

# What ends the key of the flag that every survey has.
OWN = "-custom"
DONE = ("$survey_dismissed", "$survey_responded")


class Targeting:
    """Makes and changes flags on behalf of somebody, among the flags that there are."""

    def __init__(
        self, project: Project, definitions: Definitions, actor: Actor, now: datetime
    ) -> None:
        self._project = project
        self._definitions = definitions
        self._actor = actor
        self._now = now

    def new_internal(self, survey: Survey) -> FlagWrite:
        return self._new(survey, internal_filters(survey), OWN)

    def new_targeting(self, survey: Survey, filters: Any) -> FlagWrite:
        check_targets_somebody(filters)
        return self._new(survey, filters, "")

    def internal(self, flag: Flag, before: Survey, after: Survey) -> FlagWrite | None:
        """Its conditions are anew what they should be when the next iteration begins; what somebody
        made of them stays until then."""
        filters = None if after.mark == before.mark else internal_filters(after)
        return self._changed(flag, FlagFields(filters=filters, active=after.is_running))

    def targeting(self, flag: Flag, after: Survey, filters: Any) -> FlagWrite | None:
        """`filters` go over those that there are; None leaves them."""
        if filters is not None:
            check_targets_somebody(filters)
            filters = {**flag.filters, **filters}
        return self._changed(flag, FlagFields(filters=filters, active=after.is_running))

    def gone(self, flag: Flag) -> FlagWrite:
        return self._written("deleted", flag, self._checked(flag, FlagFields(deleted=True)))

    def _new(self, survey: Survey, filters: Any, ending: str) -> FlagWrite:
        fields = FlagFields(
            key=f"{SURVEY_PREFIX}{secrets.token_hex(5)}{ending}",
            name=f"Targeting flag for survey {survey.name}",
            filters=filters,
            active=survey.is_running,
        )
        made = self._checked(blank_flag(self._project, self._actor, self._now), fields)
        return FlagWrite(flag=made, tell=lambda flag: entry_of("created", None, flag, self._actor))

    def _changed(self, flag: Flag, fields: FlagFields) -> FlagWrite | None:
        after = self._checked(flag, fields)
        return None if after == flag else self._written("updated", flag, after)

    def _written(self, verb: str, before: Flag, after: Flag) -> FlagWrite:
        after = replace(
            after,
            version=before.version + 1,
            updated_at=self._now,
            last_modified_by=person_of(self._actor),
        )
        entry = entry_of(verb, before, after, self._actor)
        return FlagWrite(flag=after, tell=lambda _: entry)

    def _checked(self, flag: Flag, fields: FlagFields) -> Flag:
        """Who changes a survey knows the flag's filters by another name."""
        try:
            return checked(flag, fields, self._definitions, for_survey=True)
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
                        "key": f"{name}/{survey.mark}",
                        "value": "is_not_set",
                        "operator": "is_not_set",
                        "type": "person",
                    }
                    for name in DONE
                ],
            }
        ]
    }


def check_targets_somebody(filters: Mapping[str, Any]) -> None:
    if any(
        not group.get("properties") and group.get("rollout_percentage") in (None, 100)
        for group in condition_sets(filters)
    ):
        raise Invalid(
            "Invalid operation: User targeting rolls out to everyone. If you want to roll out to "
            "everyone, delete this targeting",
            attr="targeting_flag_filters",
        )
