"""Operations that rollout plans and bandits have in common: create, change, delete, and what
persons do with running ones."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from hedgerow.errors import Conflict, Invalid, NotFound
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.model import Flag, FlagId
from hedgerow.lib.encryption import Cipher
from hedgerow.projects.activity import ActivityEntry, Actor
from hedgerow.projects.model import Project, ProjectId
from hedgerow.rollouts.guides import (
    Guide,
    GuideAuthor,
    GuideKind,
    Transition,
    build_asked_transition,
    get_known_flag,
)


class GuideContext(Protocol):
    """What a write can read in its transaction."""

    @property
    def find_flag(self) -> Callable[[FlagId], Flag | None]: ...
    @property
    def count(self) -> int: ...


# An id, a guide, what its write can read, and its write.
I = TypeVar("I", bound=int)  # noqa: E741
G = TypeVar("G", bound=Guide)
C = TypeVar("C", bound=GuideContext)
W = TypeVar("W")
I_contra = TypeVar("I_contra", bound=int, contravariant=True)
G_co = TypeVar("G_co", bound=Guide, covariant=True)
C_co = TypeVar("C_co", bound=GuideContext, covariant=True)
W_contra = TypeVar("W_contra", contravariant=True)


class GuideStore(Protocol[I_contra, G_co, C_co, W_contra]):
    async def flag(self, project_id: ProjectId, id: FlagId) -> Flag | None: ...

    async def flag_keys(
        self, project_id: ProjectId, ids: Collection[FlagId]
    ) -> Mapping[FlagId, str]: ...

    async def create(
        self, project_id: ProjectId, decide: Callable[[C_co], W_contra], now: datetime
    ) -> G_co: ...

    async def change(
        self,
        project_id: ProjectId,
        id: I_contra,
        decide: Callable[[C_co, G_co], W_contra | None],
        now: datetime,
    ) -> G_co | None: ...


class GuideOperations(ABC, Generic[I, G, C, W]):
    kind: GuideKind

    def __init__(
        self,
        store: GuideStore[I, G, C, W],
        flag_cache: FlagCache,
        load_cipher: Callable[[], Cipher],
    ) -> None:
        self._guides = store
        self._flag_cache = flag_cache
        self._load_cipher = load_cipher

    @abstractmethod
    async def find(self, project: Project, id: I) -> G:
        """Raise NotFound if there is none."""

    @abstractmethod
    def _build(self, fields: Mapping[str, Any]) -> G:
        """Return a new guide."""

    @abstractmethod
    def _build_write(
        self,
        guide: G,
        build_entry: Callable[[G], ActivityEntry | None],
        *,
        is_deleted: bool = False,
    ) -> W: ...

    @abstractmethod
    async def _check_query(self, project: Project, guide: G, now: datetime) -> None:
        """Raise Invalid if what the guide measures cannot be computed."""

    def _check(self, context: C, guide: G) -> None:
        """Raise Invalid if the guide names what does not exist."""
        get_known_flag(context.find_flag(guide.flag_id), guide.flag_id)

    async def find_flag(self, project: Project, guide: G) -> Flag:
        return get_known_flag(await self._guides.flag(project.id, guide.flag_id), guide.flag_id)

    async def find_flag_keys(self, project: Project, guides: Sequence[G]) -> Mapping[FlagId, str]:
        return await self._guides.flag_keys(project.id, {each.flag_id for each in guides})

    async def create(
        self, project: Project, fields: Mapping[str, Any], author: GuideAuthor, now: datetime
    ) -> G:
        own = {
            "project_id": project.id,
            "author": author.actor,
            "author_uuid": author.user_uuid,
            "created_at": now,
            "updated_at": now,
        }
        new = self._build({**own, **fields})
        await self._check_query(project, new, now)
        kind = self.kind

        def decide(context: C) -> W:
            if context.count >= kind.max_kept:
                detail = f"A project can have at most {kind.max_kept} {kind.full_words}."
                raise Invalid(f"{detail} Delete some first.")
            self._check(context, new)
            return self._build_write(
                new, lambda made: kind.build_entry("created", None, made, author.actor)
            )

        return await self._guides.create(project.id, decide, now)

    async def change(
        self,
        project: Project,
        id: I,
        fields: Mapping[str, Any],
        author: GuideAuthor,
        now: datetime,
    ) -> G:
        """Change a draft."""
        wanted: Any = replace(await self.find(project, id), **fields)  # type: ignore[type-var]
        await self._check_query(project, wanted, now)

        def decide(context: C, before: G) -> W:
            after = self.kind.change_draft(before, fields, author, now)
            self._check(context, after)
            if after is before:
                return self._build_write(before, lambda _: None)
            entry = self.kind.build_entry("updated", before, after, author.actor)
            return self._build_write(after, lambda _: entry)

        return await self._change(project, id, decide, now)

    async def delete(self, project: Project, id: I, actor: Actor, now: datetime) -> None:
        kind = self.kind

        def decide(_: C, guide: G) -> W:
            if guide.is_active:
                raise Conflict(f"The {kind.word} is {guide.state}. {kind.how_to_end}")
            entry = kind.build_entry("deleted", guide, None, actor)
            return self._build_write(guide, lambda _: entry, is_deleted=True)

        await self._change(project, id, decide, now)

    async def make(
        self,
        project: Project,
        id: I,
        step: Callable[[C, G, Transition], W],
        author: GuideAuthor,
        now: datetime,
    ) -> G:
        """Make a transition that a person asks for."""
        by = build_asked_transition(author, now, self._load_cipher)
        made = await self._change(project, id, lambda context, own: step(context, own, by), now)
        await self._flag_cache.refresh(project)
        return made

    async def _change(
        self, project: Project, id: I, decide: Callable[[C, G], W], now: datetime
    ) -> G:
        changed = await self._guides.change(project.id, id, decide, now)
        if changed is None:
            raise NotFound
        return changed
