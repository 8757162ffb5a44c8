"""Damage of any file of an edge process's inbox: the rest is sent, and what is missing is counted.
A disk that refuses a write loses nothing that was stored before, and the log can be used again.
"""

import errno
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hedgerow.edge.inbox import record_log
from hedgerow.edge.inbox import store as store_module
from hedgerow.edge.inbox.position import NumberRanges
from hedgerow.edge.inbox.record_log import RecordLog
from hedgerow.edge.inbox.requests import WaitingRequest, encode_request
from hedgerow.edge.inbox.store import EdgeInboxError, EdgeInboxStore, read_contents
from hedgerow.http.sdk.edge_receipt import Receipt
from hedgerow.projects.model import ProjectId

COUNT = 600
BATCH = 7
# Several segments, so that each test has a first, a middle and a last one.
SEGMENT_BYTES = 20_000


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_log, "SEGMENT_BYTES", SEGMENT_BYTES)


def build_content(number: int) -> bytes:
    return f"request {number} ".encode() * random.Random(number).randrange(1, 40)


def write(folder: Path, count: int = COUNT) -> None:
    log = RecordLog(folder)
    contents = [build_content(number) for number in range(1, count + 1)]
    for start in range(0, count, BATCH):
        log.append(contents[start : start + BATCH])
    log.close()


def read_again(folder: Path) -> tuple[list[int], set[int]]:
    """Open the log as a new process does. Return the numbers that wait, and those that are lost."""
    log = RecordLog(folder)
    found = []
    for number, content in log.read_all():
        assert content == build_content(number)
        found.append(number)
    lost = {number for start, end in log.lost for number in range(start, end)}
    log.close()
    assert found == sorted(found)
    return found, lost


def finish(folder: Path, *ranges: tuple[int, int]) -> None:
    log = RecordLog(folder)
    list(log.read_all())
    log.finish(NumberRanges(ranges))
    log.close()


def list_segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def flip(path: Path, *offsets: int) -> None:
    content = bytearray(path.read_bytes())
    for each in offsets:
        content[each] ^= 0x10
    path.write_bytes(content)


def cut_end(folder: Path) -> None:
    path = list_segments(folder)[-1]
    os.truncate(path, path.stat().st_size // 3)


def cut_middle(folder: Path) -> None:
    path = list_segments(folder)[2]
    os.truncate(path, path.stat().st_size // 2)


def remove_part(folder: Path) -> None:
    path = list_segments(folder)[1]
    content = path.read_bytes()
    path.write_bytes(content[:3001] + content[9000:])


def zero_pages(folder: Path) -> None:
    path = list_segments(folder)[1]
    content = bytearray(path.read_bytes())
    content[4096:12288] = bytes(8192)
    path.write_bytes(content)


def flip_bits(folder: Path) -> None:
    for path in list_segments(folder):
        flip(path, path.stat().st_size // 2)


def fill_with_noise(folder: Path) -> None:
    list_segments(folder)[1].write_bytes(os.urandom(SEGMENT_BYTES))


def empty_all(folder: Path) -> None:
    for each in list_segments(folder):
        os.truncate(each, 0)


def remove_all(folder: Path) -> None:
    for each in list_segments(folder):
        each.unlink()


def remove_first(folder: Path) -> None:
    list_segments(folder)[0].unlink()


def remove_middle(folder: Path) -> None:
    list_segments(folder)[1].unlink()


def remove_last(folder: Path) -> None:
    list_segments(folder)[-1].unlink()


DAMAGES = [
    *(flip_bits, cut_end, cut_middle, remove_part, zero_pages, fill_with_noise, empty_all),
    *(remove_all, remove_first, remove_middle, remove_last),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_takes_only_what_it_hits(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    write(tmp_path)
    assert read_again(tmp_path) == (list(range(1, COUNT + 1)), set())
    damage(tmp_path)
    found, lost = read_again(tmp_path)
    assert lost
    assert sorted([*found, *lost]) == list(range(1, COUNT + 1))
    # Each bit takes one record only.
    assert damage is not flip_bits or len(lost) == len(list_segments(tmp_path))


def test_random_damage_is_counted(tmp_path: Path) -> None:
    for seed in range(20):
        folder = tmp_path / str(seed)
        write(folder, 100)
        chosen = random.Random(seed)
        path = chosen.choice(list_segments(folder))
        content = bytearray(path.read_bytes())
        for _ in range(chosen.randrange(1, 8)):
            start = chosen.randrange(len(content))
            length = chosen.choice([1, 1, 20, 3000])
            content[start : start + length] = chosen.randbytes(min(length, len(content) - start))
        path.write_bytes(content[: chosen.choice([len(content), len(content) - 50])])
        found, lost = read_again(folder)
        assert sorted([*found, *lost]) == list(range(1, 101)), seed


def test_what_was_sent_is_not_lost(tmp_path: Path) -> None:
    write(tmp_path)
    finish(tmp_path, (1, 300), (310, 320))
    for path in list_segments(tmp_path):
        os.truncate(path, 0)
    assert read_again(tmp_path) == ([], {*range(300, 310), *range(320, COUNT + 1)})


def test_content_that_looks_like_a_record_is_none(tmp_path: Path) -> None:
    """A client knows the format, but not the marker of a segment."""
    write(tmp_path / "other", 1)
    [other] = list_segments(tmp_path / "other")
    log = RecordLog(tmp_path / "log")
    log.append([other.read_bytes() * 3, b"after"])
    log.close()
    [segment] = list_segments(tmp_path / "log")
    flip(segment, record_log.HEAD_BYTES + 1)
    log = RecordLog(tmp_path / "log")
    assert list(log.read_all()) == [(2, b"after")]
    assert list(log.lost) == [(1, 2)]


def test_lost_position_sends_everything_again(tmp_path: Path) -> None:
    write(tmp_path)
    finish(tmp_path, (1, 3), (310, 320))
    (tmp_path / "position").unlink()
    log = RecordLog(tmp_path)
    assert log.has_lost_position
    assert [number for number, _ in log.read_all()] == list(range(1, COUNT + 1))
    assert not log.lost.count()
    log.append([b"next"])
    assert [number for number, _ in log.read()][-1] == COUNT + 1
    log.close()


def test_stale_position_sends_some_again(tmp_path: Path) -> None:
    write(tmp_path, 300)
    finish(tmp_path, (1, 100))
    stale = (tmp_path / "position").read_bytes()
    log = RecordLog(tmp_path)
    list(log.read_all())
    log.finish(NumberRanges([(100, 120)]))
    log.append([build_content(301)])
    log.close()
    (tmp_path / "position").write_bytes(stale)
    assert read_again(tmp_path) == (list(range(100, 302)), set())


@pytest.mark.parametrize("slot", [0, 1])
def test_damaged_slot_of_the_position_costs_one_write(tmp_path: Path, slot: int) -> None:
    write(tmp_path)
    finish(tmp_path, (1, 50))
    flip(tmp_path / "position", slot * 4096 + 30)
    found, lost = read_again(tmp_path)
    assert found in (list(range(1, COUNT + 1)), list(range(50, COUNT + 1)))
    assert not lost


def test_damage_while_running_is_found_by_the_next_read(tmp_path: Path) -> None:
    log = RecordLog(tmp_path)
    log.append([build_content(number) for number in range(1, 11)])
    assert len(list(log.read())) == 10
    [segment] = list_segments(tmp_path)
    flip(segment, record_log.HEAD_BYTES + 1)
    assert [number for number, _ in log.read()] == list(range(2, 11))
    assert list(log.lost) == [(1, 2)]
    segment.unlink()
    # Not written to a file that is never found again.
    log.append([build_content(11)])
    log.close()
    assert read_again(tmp_path) == ([11], set(range(1, 11)))


def test_unreadable_blocks_of_the_disk_are_lost_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 100)
    pread = os.pread

    def fail(file: int, length: int, offset: int) -> bytes:
        if offset < 8192 and offset + length > 4096:
            raise OSError(errno.EIO, "Input/output error")
        return pread(file, length, offset)

    monkeypatch.setattr(os, "pread", fail)
    found, lost = read_again(tmp_path)
    assert lost
    assert sorted([*found, *lost]) == list(range(1, 101))
    assert len(lost) < 50


def test_files_go_when_all_is_sent(tmp_path: Path) -> None:
    log = RecordLog(tmp_path)
    for start in range(1, COUNT, 10):
        log.append([build_content(number) for number in range(start, start + 10)])
    before = len(list_segments(tmp_path))
    log.finish(NumberRanges([(1, COUNT // 2)]))
    assert 0 < len(list_segments(tmp_path)) < before
    log.finish(NumberRanges([(COUNT // 2, COUNT + 1)]))
    assert not list_segments(tmp_path)
    log.append([build_content(COUNT + 1)])
    log.close()
    assert read_again(tmp_path) == ([COUNT + 1], set())


class Disk:
    """Makes one call of the operating system fail, once or until it is healed."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, call: str, *, after_bytes: int = -1
    ) -> None:
        self._real = getattr(os, call)
        self._after_bytes = after_bytes
        self.failing = False
        monkeypatch.setattr(os, call, self._call)

    def _call(self, *arguments: int) -> object:
        if not self.failing:
            return self._real(*arguments)
        if self._after_bytes > 0:
            file, content, offset = arguments
            written = self._real(file, memoryview(content)[: self._after_bytes], offset)  # type: ignore[arg-type]
            self._after_bytes = 0
            return written
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("call", "after_bytes"),
    [("pwrite", -1), ("pwrite", 100), ("fdatasync", -1), ("open", -1), ("ftruncate", -1)],
)
def test_refused_write_leaves_what_was_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, after_bytes: int
) -> None:
    log = RecordLog(tmp_path)
    log.append([b"first", b"second"])
    # Truncation fails besides a write.
    disks = [Disk(monkeypatch, call, after_bytes=after_bytes)]
    if call == "ftruncate":
        disks.append(Disk(monkeypatch, "fdatasync"))
    if call == "open":
        # A new segment is due.
        monkeypatch.setattr(record_log, "SEGMENT_BYTES", 1)
    for _ in range(3):
        for each in disks:
            each.failing = True
        with pytest.raises(OSError, match="No space"):
            log.append([b"refused"] * 3)
        for each in disks:
            each.failing = False
        assert [content for _, content in log.read()] == [b"first", b"second"]
    log.append([b"third"])
    expected = [(1, b"first"), (2, b"second"), (3, b"third")]
    assert list(log.read()) == expected
    assert not log.lost.count()
    log.close()
    again = RecordLog(tmp_path)
    assert list(again.read_all()) == expected
    assert not again.lost.count()
    again.close()


def test_records_are_finished_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The space of the position is reserved; if it cannot be written all the same, the records are
    not sent twice before a restart."""
    log = RecordLog(tmp_path)
    log.append([b"first", b"second"])
    disk = Disk(monkeypatch, "pwrite")
    disk.failing = True
    log.finish(NumberRanges([(1, 2)]))
    assert [number for number, _ in log.read()] == [2]
    disk.failing = False
    log.finish(NumberRanges([(2, 3)]))
    assert not list_segments(tmp_path)
    log.close()
    assert read_again(tmp_path) == ([], set())


def build_request(number: int) -> bytes:
    request = WaitingRequest(
        project_id=ProjectId(1),
        method="POST",
        path="/e/",
        headers=[],
        receipt=Receipt(received_us=number, randomness=b"x" * 10, ip=""),
    )
    return encode_request(request, b"x" * 100)


def find_ids(store: EdgeInboxStore) -> list[int]:
    found, _ = store.fetch(ProjectId(1), at_most=100, max_bytes=1 << 20)
    return [each.id for each in found]


def test_intact_requests_are_sent_before_the_list_of_lost_ones_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EdgeInboxStore(tmp_path)
    store.add(ProjectId(1), [build_request(number) for number in range(3)])
    store.close()
    [segment] = list_segments(tmp_path / "edge-inbox" / "1")
    flip(segment, record_log.HEAD_BYTES + 1)
    disk = Disk(monkeypatch, "fsync")
    disk.failing = True
    store = EdgeInboxStore(tmp_path)
    assert find_ids(store) == [2, 3]
    store.finish(ProjectId(1), [2, 3])
    with pytest.raises(EdgeInboxError, match="No space"):
        find_ids(store)
    assert store.lost == 0
    disk.failing = False
    assert find_ids(store) == []
    assert store.lost == 1
    store.close()
    [(log, (numbers, _))] = read_contents(tmp_path, is_in_use=False).lost.items()
    assert (log, str(numbers)) == ("1", "1")


def test_retry_on_a_full_disk_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More dead letters than one write copies, and the second write fails."""
    store = EdgeInboxStore(tmp_path)
    contents = [build_request(number) for number in range(store_module.COPIED_RECORDS + 1)]
    store.add(ProjectId(1), contents)
    found, _ = store.fetch(ProjectId(1), at_most=len(contents), max_bytes=1 << 30)
    store.bury(ProjectId(1), [(each, "no") for each in found])
    append = RecordLog.append

    def fail_later(log: RecordLog, records: Sequence[bytes]) -> None:
        if len(records) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(log, records)

    for _ in range(2):
        monkeypatch.setattr(RecordLog, "append", fail_later)
        with pytest.raises(EdgeInboxError, match="No space"):
            store.retry_dead(len(contents))
        assert find_ids(store) == []
    monkeypatch.undo()
    result = store.retry_dead(len(contents))
    assert (result.number, result.dead) == (len(contents), {})
    assert result.retried[ProjectId(1)].number == len(contents)
    assert len(find_ids(store)) == 65
    store.close()
    contents_again = read_contents(tmp_path, is_in_use=False)
    assert (contents_again.waiting.number, contents_again.lost) == (len(contents), {})
