"""The files of the inbox: a log of the requests of each project, a log of the dead letters, and the
list of what is lost. Its methods block, and one thread at a time calls them.
"""

import fcntl
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
import structlog

from hedgerow.edge.inbox.lost import LostRecords
from hedgerow.edge.inbox.old_format import OldInbox
from hedgerow.edge.inbox.position import NumberRanges, make_folder
from hedgerow.edge.inbox.record_log import HEAD_BYTES, RecordLog
from hedgerow.edge.inbox.requests import (
    MAX_REASON_CHARS,
    DeadRequest,
    DeadRequestSummary,
    Lane,
    StoredRequest,
    decode_dead,
    decode_request,
    encode_dead,
    encode_request,
)
from hedgerow.projects.model import ProjectId

FOLDER = "edge-inbox"
DEAD = "dead"
LOST_FILE = "lost.json"
# Records that are copied in one write.
COPIED_RECORDS = 64
MAX_LOGGED_CHARS = 500
Command = Literal["retry", "discard"]
_COMMAND_FILE = re.compile(r"(retry|discard)-(\d+)")

T = TypeVar("T")
_log = structlog.get_logger("hedgerow.edge")


class EdgeInboxError(Exception):
    """The files cannot be read or written: the disk is full, for example."""


class CommandResult(msgspec.Struct, kw_only=True):
    """`retried` is what waits again, `number` the dead letters that are gone, `dead` the rest."""

    retried: Mapping[ProjectId, Lane]
    number: int
    dead: Mapping[ProjectId, Lane]


class InboxContents(msgspec.Struct, kw_only=True):
    """What the files have. `lost` has the numbers by log, and since when they are missing."""

    waiting: Lane
    dead: Sequence[DeadRequestSummary]
    lost: Mapping[str, tuple[NumberRanges, float]]


class EdgeInboxStore:
    def __init__(self, data_dir: Path) -> None:
        """Reads all files. The caller has the lock. Raises EdgeInboxError."""
        self._folder = data_dir / FOLDER
        self._logs: dict[str, RecordLog] = {}
        self.lanes: dict[ProjectId, Lane] = {}
        with _translate(), ExitStack() as stack:
            make_folder(self._folder)
            self._lost = LostRecords(self._folder / LOST_FILE)
            if self._lost.is_damaged:
                _log.error("the list of lost requests was damaged, and begins anew")
            stack.callback(self.close)
            for name in _list_logs(self._folder):
                self.lanes[_parse(name)] = self._open_log(name)
            self._open_log(DEAD)
            self._take_over(OldInbox(self._folder))
            self.dead = _count_dead(self._get_log(DEAD).read())
            stack.pop_all()

    @property
    def lost(self) -> int:
        return self._lost.number

    def add(self, project_id: ProjectId, contents: Sequence[bytes]) -> None:
        """Store requests in their order. They are on the disk when this returns."""
        with _translate():
            self._get_log(str(project_id)).append(contents)

    def fetch(
        self, project_id: ProjectId, *, at_most: int, max_bytes: int
    ) -> tuple[Sequence[StoredRequest], int]:
        """Return the first requests of a project, at least one, and how many are lost."""
        found: list[StoredRequest] = []
        size = 0
        with _translate():
            log = self._get_log(str(project_id))
            with closing(log.read()) as records:
                for number, content in records:
                    size += len(content)
                    if found and size > max_bytes:
                        break
                    request, body = decode_request(content)
                    found.append(
                        StoredRequest(id=number, request=request, body=body, size=measure(content))
                    )
                    if len(found) == at_most:
                        break
            try:
                return found, self._note_lost(str(project_id), log)
            except OSError:
                # The next read finds them again: what is intact is sent, and makes space.
                if not found:
                    raise
                return found, 0

    def finish(self, project_id: ProjectId, sent: Iterable[int]) -> None:
        """Remove what the origin has."""
        with _translate():
            self._get_log(str(project_id)).finish(NumberRanges((id, id + 1) for id in sent))

    def bury(
        self, project_id: ProjectId, refused: Sequence[tuple[StoredRequest, str]]
    ) -> Sequence[int]:
        """Keep what the origin has refused as dead letters, and return their sizes."""
        now_s = time.time()
        contents = [
            encode_dead(
                DeadRequest(
                    refused_at_s=now_s,
                    reason=reason[:MAX_REASON_CHARS],
                    content=encode_request(each.request, each.body),
                )
            )
            for each, reason in refused
        ]
        with _translate():
            self._get_log(DEAD).append(contents)
        self.finish(project_id, [each.id for each, _ in refused])
        return [measure(each) for each in contents]

    def retry_dead(self, until: int) -> CommandResult:
        """Let the dead letters up to this number wait again, after what waits already."""
        with _translate():
            dead = (
                decode_dead(content).content
                for number, content in self._get_log(DEAD).read()
                if number <= until
            )
            retried = self._append_all((_find_log(content), content) for content in dead)
        return self._remove_dead(until, retried)

    def discard_dead(self, until: int) -> CommandResult:
        """Remove the dead letters up to this number, and the list of what is lost."""
        with _translate():
            self._lost.clear()
        return self._remove_dead(until, {})

    def run_commands(self) -> Sequence[CommandResult]:
        """Do what commands have left to the process that has the inbox."""
        results = []
        with _translate():
            for path in sorted(self._folder.iterdir()):
                found = _COMMAND_FILE.fullmatch(path.name)
                if found is not None:
                    run = self.retry_dead if found[1] == "retry" else self.discard_dead
                    results.append(run(int(found[2])))
                    path.unlink()
        return results

    def close(self) -> None:
        for each in self._logs.values():
            each.close()

    def _get_log(self, name: str) -> RecordLog:
        """Return the log, which is empty if it was not there at the start."""
        if name not in self._logs:
            self._open_log(name)
        return self._logs[name]

    def _open_log(self, name: str) -> Lane:
        log = RecordLog(self._folder / name)
        if log.has_lost_position:
            _log.error(
                "the position of the inbox was damaged or missing: requests are sent again, which "
                "the origin notices; if the last ones are missing too, they are not counted",
                log=name,
            )
        lane = _count(name, log.read_all())
        self._logs[name] = log
        with suppress(OSError):
            self._note_lost(name, log)
        return lane

    def _note_lost(self, name: str, log: RecordLog) -> int:
        """List, log and give up what is missing. Return its number."""
        number, numbers = log.lost.count(), str(log.lost)
        if not number:
            return 0
        self._lost.add(name, log.lost)
        log.finish(log.lost)
        _log.error(
            "stored requests are lost, since files of the inbox are damaged or missing: "
            "`hedgerow edge-inbox list` lists them",
            log=name,
            requests=number,
            numbers=numbers[:MAX_LOGGED_CHARS],
        )
        return number

    def _remove_dead(self, until: int, retried: Mapping[str, Lane]) -> CommandResult:
        with _translate():
            dead = self._get_log(DEAD)
            number = sum(1 for id, _ in dead.read() if id <= until)
            self._note_lost(DEAD, dead)
            end = min(until + 1, dead.position.next)
            dead.finish(NumberRanges([(dead.position.first, end)]))
            return CommandResult(
                retried={_parse(name): lane for name, lane in retried.items()},
                number=number,
                dead=_count_dead(dead.read()),
            )

    def _append_all(self, records: Iterable[tuple[str, bytes]]) -> dict[str, Lane]:
        """Append records to logs, all or none, and count them."""
        lanes: dict[str, Lane] = {}
        ends: dict[str, int] = {}
        is_done = False
        try:
            for batch in _split(records):
                groups: dict[str, list[bytes]] = {}
                for name, content in batch:
                    groups.setdefault(name, []).append(content)
                for name, group in groups.items():
                    log = self._get_log(name)
                    ends.setdefault(name, log.position.next)
                    log.append(group)
                    _count(name, enumerate(group), lanes.setdefault(name, Lane()))
            is_done = True
        finally:
            if not is_done:
                for name, end in ends.items():
                    log = self._logs[name]
                    log.finish(NumberRanges([(end, log.position.next)]))
        return lanes

    def _take_over(self, old: OldInbox) -> None:
        if not old.exists():
            return
        waiting = (encode_request(*each) for each in old.list_waiting())
        lanes = self._append_all(
            chain(
                ((_find_log(each), each) for each in waiting),
                ((DEAD, encode_dead(each)) for each in old.list_dead()),
            )
        )
        for name, lane in lanes.items():
            if name != DEAD:
                self.lanes.setdefault(_parse(name), Lane()).add(lane)
        if old.problem:
            path = str(old.move_away())
            _log.error(
                "the inbox of an earlier version is damaged and was moved away: what could be "
                "read is sent",
                path=path,
                reason=old.problem,
            )
        else:
            old.remove()


def measure(content: bytes) -> int:
    """Return the bytes on the disk."""
    return len(content) + HEAD_BYTES


def lock_folder(data_dir: Path) -> int | None:
    """Return the open lock file, None if another process has the inbox. Raises OSError."""
    folder = data_dir / FOLDER
    make_folder(folder)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def read_contents(data_dir: Path, *, is_in_use: bool) -> InboxContents:
    """Read the files and change none. While another process uses them, what is missing may only
    have been sent. Raises EdgeInboxError."""
    folder = data_dir / FOLDER
    waiting, dead = Lane(), []
    with _translate():
        lost = dict(LostRecords(folder / LOST_FILE).list_all())
        for name in (*_list_logs(folder), DEAD):
            log = RecordLog(folder / name)
            if name == DEAD:
                dead = [_describe_dead(*each) for each in log.read_all()]
            else:
                waiting.add(_count(name, log.read_all()))
            if log.lost.count() and not is_in_use:
                before, since_s = lost.get(name, (NumberRanges(), time.time()))
                lost[name] = NumberRanges([*before, *log.lost]), since_s
    return InboxContents(waiting=waiting, dead=dead, lost=lost)


def request_command(data_dir: Path, command: Command, until: int) -> Path:
    """Leave a command to the process that has the inbox. It removes the returned file when it is
    done. Raises EdgeInboxError."""
    path = data_dir / FOLDER / f"{command}-{until}"
    with _translate():
        path.touch(mode=0o600)
    return path


def _list_logs(folder: Path) -> Sequence[str]:
    return sorted((each.name for each in folder.iterdir() if each.name.isdecimal()), key=int)


def _find_log(content: bytes) -> str:
    return str(decode_request(content)[0].project_id)


def _parse(name: str) -> ProjectId:
    return ProjectId(int(name))


def _count(name: str, records: Iterable[tuple[int, bytes]], lane: Lane | None = None) -> Lane:
    number, size, oldest_us = 0, 0, 0
    for _, content in records:
        if not number and name != DEAD:
            oldest_us = decode_request(content)[0].receipt.received_us
        number += 1
        size += measure(content)
    lane = Lane() if lane is None else lane
    lane.add(Lane(number=number, size=size, oldest_us=oldest_us))
    return lane


def _count_dead(records: Iterable[tuple[int, bytes]]) -> dict[ProjectId, Lane]:
    lanes: dict[ProjectId, Lane] = {}
    for _, content in records:
        project_id = decode_request(decode_dead(content).content)[0].project_id
        lanes.setdefault(project_id, Lane()).add(Lane(number=1, size=measure(content)))
    return lanes


def _describe_dead(id: int, content: bytes) -> DeadRequestSummary:
    dead = decode_dead(content)
    request, _ = decode_request(dead.content)
    return DeadRequestSummary(
        id=id,
        project_id=request.project_id,
        received_at_s=request.receipt.received_us / 1e6,
        refused_at_s=dead.refused_at_s,
        path=request.path.partition("?")[0],
        size=measure(content),
        reason=dead.reason,
    )


def _split(contents: Iterable[T]) -> Iterator[Sequence[T]]:
    rest = iter(contents)
    while batch := list(islice(rest, COPIED_RECORDS)):
        yield batch


@contextmanager
def _translate() -> Iterator[None]:
    try:
        yield
    except (OSError, msgspec.MsgspecError) as error:
        raise EdgeInboxError(str(error)) from error
