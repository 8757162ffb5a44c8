"""Test data for projects and keys, and a store in memory."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from hedgerow.errors import NotFound, Unavailable
from hedgerow.lib.tokens import hash_token, mask_token
from hedgerow.projects.activity import Actor
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import (
    KeyId,
    Organization,
    PersonalKey,
    Project,
    ProjectId,
    ProjectToken,
    SecretKey,
    User,
)
from hedgerow.projects.roles import BUILT_IN_ROLES
from hedgerow.projects.store import DirectorySnapshot, NewProject
from tests.unit.fake_time import START, FakeTime, real_sleep

KEY = "phx_known-personal-key-for-tests"
TOKEN = "phc_known-project-key-for-tests"
ONE, TWO = ProjectId(1), ProjectId(2)

OWNER = User(
    id=1,
    uuid="00000000-0000-0000-0000-000000000001",
    organization=Organization(id="00000000-0000-0000-0000-00000000000a", name="Hedgerow"),
    first_name="Owner",
    email="owner@hedgerow.invalid",
    distinct_id="owner",
    created_at=START,
    organization_role="owner",
)


def make_project(id: ProjectId = ONE, token: str = TOKEN) -> Project:
    return Project(
        id=id,
        uuid=f"00000000-0000-0000-0000-{id:012}",
        organization_id=OWNER.organization.id,
        name=f"Project {id}",
        timezone="UTC",
        api_token=token,
        created_at=START,
        updated_at=START,
    )


def make_key(
    value: str = KEY,
    id: str = "key-1",
    *,
    project_ids: tuple[ProjectId, ...] = (),
    created_at: datetime = START,
    last_used_at: datetime | None = None,
) -> PersonalKey:
    return PersonalKey(
        id=KeyId(id),
        user_id=OWNER.id,
        label=id,
        hash=hash_token(value),
        mask=mask_token(value),
        scopes=("*",),
        project_ids=project_ids,
        created_at=created_at,
        last_used_at=last_used_at,
        last_rolled_at=None,
    )


class FakeProjectStore:
    """A store in memory that records each call. `failures` is how many of the next calls
    fail, by name."""

    def __init__(self, *keys: PersonalKey) -> None:
        self.keys = list(keys)
        self.projects = [make_project()]
        self.tokens = [ProjectToken(value=TOKEN, project_id=ONE, expires_at=None)]
        self.secrets: dict[str, ProjectId] = {}
        self.stored_generation = 1
        self.calls: list[str] = []
        self.saved_uses: list[Mapping[KeyId, datetime]] = []
        self.failures: Counter[str] = Counter()

    async def generation(self) -> int:
        await self._called("generation")
        return self.stored_generation

    async def snapshot(self) -> DirectorySnapshot:
        await self._called("snapshot")
        return DirectorySnapshot(
            generation=self.stored_generation,
            users={OWNER.id: OWNER},
            projects={project.id: project for project in self.projects},
            keys_by_hash={key.hash: key for key in self.keys},
            tokens={token.value: token for token in self.tokens},
            secrets_by_hash=dict(self.secrets),
            roles=BUILT_IN_ROLES,
            sessions_by_hash={},
        )

    async def save_last_use(self, used: Mapping[KeyId, datetime]) -> None:
        await self._called("save_last_use")
        self.saved_uses.append(used)

    async def save_session_use(self, used: Mapping[str, datetime]) -> None:
        await self._called("save_session_use")

    async def add_key(self, key: PersonalKey, actor: Actor, now: datetime) -> PersonalKey:
        await self._called("add_key")
        self.keys.append(key)
        self.stored_generation += 1
        return key

    async def edit_key(
        self,
        id: KeyId,
        edit: Callable[[PersonalKey], PersonalKey],
        activity: str,
        actor: Actor,
        now: datetime,
    ) -> PersonalKey:
        await self._called(f"edit_key {activity}")
        before = self._key(id)
        after = edit(before)
        self.keys[self.keys.index(before)] = after
        self.stored_generation += 1
        return after

    async def remove_key(self, id: KeyId, actor: Actor, now: datetime) -> None:
        await self._called("remove_key")
        self.keys.remove(self._key(id))
        self.stored_generation += 1

    async def add_project(self, new: NewProject, actor: Actor, now: datetime) -> Project:
        await self._called("add_project")
        blank = make_project(ProjectId(len(self.projects) + 1), new.api_token)
        project = replace(blank, name=new.name, timezone=new.timezone)
        self.projects.append(project)
        self._open(project)
        return project

    async def edit_project(
        self, id: ProjectId, edit: Callable[[Project], Project], actor: Actor, now: datetime
    ) -> Project:
        await self._called("edit_project")
        self.projects[id - 1] = edit(self.projects[id - 1])
        self.stored_generation += 1
        return self.projects[id - 1]

    async def rotate_token(
        self, id: ProjectId, token: str, old_until: datetime, actor: Actor, now: datetime
    ) -> Project:
        await self._called("rotate_token")
        self.tokens = [replace(old, expires_at=old_until) for old in self.tokens]
        self.projects[id - 1] = replace(self.projects[id - 1], api_token=token)
        self._open(self.projects[id - 1])
        return self.projects[id - 1]

    async def rotate_secret(
        self, id: ProjectId, secret: SecretKey, actor: Actor, now: datetime
    ) -> Project:
        await self._called("rotate_secret")
        *_, last = [None, *self.secrets]
        self.secrets = {hash: id for hash in (last, secret.hash) if hash}
        self.stored_generation += 1
        return replace(self.projects[id - 1], secret_mask=secret.mask)

    async def drop_backup_secret(self, id: ProjectId, actor: Actor, now: datetime) -> Project:
        await self._called("drop_backup_secret")
        *_, last = self.secrets
        self.secrets = {last: id}
        self.stored_generation += 1
        return self.projects[id - 1]

    async def delete_project(self, id: ProjectId, actor: Actor, now: datetime) -> None:
        await self._called("delete_project")
        self.projects = [project for project in self.projects if project.id != id]
        self.stored_generation += 1

    def _open(self, project: Project) -> None:
        self.tokens.append(
            ProjectToken(value=project.api_token, project_id=project.id, expires_at=None)
        )
        self.stored_generation += 1

    def _key(self, id: KeyId) -> PersonalKey:
        found = next((key for key in self.keys if key.id == id), None)
        if found is None:
            raise NotFound
        return found

    async def _called(self, name: str) -> None:
        self.calls.append(name)
        await real_sleep(0)
        if self.failures[name] > 0:
            self.failures[name] -= 1
            raise Unavailable


async def make_directory(store: FakeProjectStore, time: FakeTime) -> Directory:
    """Return a refreshed directory. The refresh is not among the recorded calls."""
    directory = Directory(store, time.now, time.monotonic)
    await directory.refresh()
    store.calls.clear()
    time.advance(timedelta(hours=1).total_seconds())
    return directory
