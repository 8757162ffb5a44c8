"""What rollout plans and bandits have in common: each guides a flag, from state to state. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from hedgerow.errors import Conflict, Invalid
from hedgerow.flags.flags import Authorship, build_change
from hedgerow.flags.model import Flag, FlagDefinitions, FlagId
from hedgerow.flags.schedules.operations import build_fields
from hedgerow.flags.store import FlagWrite
from hedgerow.lib.encryption import Cipher
from hedgerow.projects.activity import SYSTEM, ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import ProjectId

FLAG_GONE = "The flag was deleted."
DRAFT = "draft"
# Clocks of several processes differ by less.
CLOCK_TOLERANCE = timedelta(seconds=30)

Found = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuideAuthor:
    """Who asks. `user_uuid` is "" for the command line."""

    actor: Actor
    user_uuid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """Who makes a transition, when and why, and the evidence for it. `is_asked_for` if a person
    does."""

    actor: Actor
    now: datetime
    load_cipher: Callable[[], Cipher]
    why: str = ""
    user_uuid: str = ""
    is_asked_for: bool = False
    found: Found = ()


def build_asked_transition(
    author: GuideAuthor, now: datetime, load_cipher: Callable[[], Cipher]
) -> Transition:
    """Return a transition that a person asks for."""
    return Transition(
        actor=author.actor,
        now=now,
        load_cipher=load_cipher,
        user_uuid=author.user_uuid,
        is_asked_for=True,
        why=f"By {author.actor.email or author.actor.name}.",
    )


class Guide(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def project_id(self) -> ProjectId: ...
    @property
    def flag_id(self) -> FlagId: ...
    @property
    def name(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def state(self) -> StrEnum: ...
    @property
    def is_active(self) -> bool: ...
    @property
    def version(self) -> int: ...


G = TypeVar("G", bound=Guide)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuideKind:
    """A kind of guide. `word`, `words` and `full_words` name it in messages, `scope` in the
    activity log. A project can have `max_kept`, and `max_active` that have not ended; `how_to_end`
    says what a person can do with those."""

    word: str
    words: str
    full_words: str
    scope: str
    max_kept: int
    max_active: int
    how_to_end: str
    audit: Callable[[Any], dict[str, Any]]

    def require_state(self, guide: Guide, verb: str, *states: StrEnum) -> None:
        if guide.state not in states:
            expected = " or ".join(states)
            raise Conflict(
                f"The {self.word} is {guide.state}. Only one that is {expected} can be {verb}."
            )

    def check_free(self, active: Mapping[Any, FlagId], guide: Guide) -> None:
        """Raise AppError if the flag, or the project, has as many as it can have."""
        others = [id for id, flag_id in active.items() if flag_id == guide.flag_id]
        if others:
            raise Conflict(f"The {self.word} {others[0]} of the same flag has not ended.")
        if len(active) >= self.max_active:
            raise Invalid(
                f"A project can have at most {self.max_active} {self.words} that have not ended."
            )

    def build_entry(
        self, activity: str, before: Guide | None, after: Guide | None, actor: Actor
    ) -> ActivityEntry:
        guide = after or before
        assert guide is not None
        return ActivityEntry(
            scope=self.scope,
            item_id=str(guide.id),
            item_name=guide.name,
            activity=activity,
            actor=actor,
            project_id=guide.project_id,
            changes=diff_fields(
                self.scope,
                {} if before is None else self.audit(before),
                {} if after is None else self.audit(after),
            ),
            detail={"reason": guide.reason} if actor == SYSTEM and guide.reason else {},
        )

    def change_draft(
        self, before: G, fields: Mapping[str, Any], author: GuideAuthor, now: datetime
    ) -> G:
        """Return the guide with other fields, itself if nothing changes. Raises Conflict if it is
        no draft."""
        if before.state != DRAFT:
            raise Conflict(f"The {self.word} is {before.state}. Only a draft can be changed.")
        after: Any = replace(before, **fields)  # type: ignore[type-var]
        if self.audit(after) == self.audit(before):
            return before
        changed: G = replace(
            after,
            author=author.actor,
            author_uuid=author.user_uuid,
            updated_at=now,
            version=before.version + 1,
        )
        return changed


def get_live_flag(flag: Flag | None) -> Flag:
    """Raise Conflict if the flag is gone."""
    if flag is None or flag.deleted:
        raise Conflict(FLAG_GONE)
    return flag


def get_known_flag(flag: Flag | None, id: FlagId) -> Flag:
    """Raise Invalid if there is no flag with the id that a client has sent."""
    if flag is None or flag.deleted:
        detail = f'There is no feature flag with the id "{id}".'
        raise Invalid(detail, attr="flag", code="does_not_exist")
    return flag


def write_flag(
    definitions: FlagDefinitions,
    flag: Flag,
    payload: Mapping[str, Any],
    trigger: Mapping[str, Any],
    by: Transition,
) -> FlagWrite:
    """Return the change of a flag by a guide. `payload` is an operation of scheduled changes."""
    detail = {"trigger": trigger, "reason": by.why}
    authorship = Authorship(actor=by.actor, at=by.now, detail=detail)
    return build_change(
        flag, build_fields(flag, payload), definitions, by.load_cipher(), authorship
    )
