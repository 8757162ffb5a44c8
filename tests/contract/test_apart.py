"""A process apart: it answers, and if it does not there is another one."""

import os
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hedgerow.kit.apart import Apart, Lost

HOST = "tests.contract.apart_host"


@contextmanager
def opened(answer_s: float) -> Iterator[Apart]:
    apart = Apart(HOST, start_s=60, answer_s=answer_s)
    try:
        yield apart
    finally:
        apart.close()


def test_what_is_asked_is_answered_whatever_its_size_and_a_crash_is_told() -> None:
    with opened(60) as apart:
        for question in (b"abc", b"x" * 3_000_000 + b"y"):
            assert apart.ask(lambda _, q=question: q) == question[::-1]  # type: ignore[misc]
        with pytest.raises(Lost) as lost:
            apart.ask(lambda _: b"end")
        assert not lost.value.late
        assert apart.ask(lambda process: str(process).encode()) == b"2"
        assert apart.starts == 2


def test_a_signal_to_all_processes_of_a_service_does_not_end_it() -> None:
    with opened(60) as apart:
        os.kill(int(apart.ask(lambda _: b"who")), signal.SIGTERM)
        assert apart.ask(lambda _: b"abc") == b"cba"
        assert apart.starts == 1


def test_many_open_files_are_in_nobodys_way() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with opened(60) as apart:
            assert apart.ask(lambda _: b"abc") == b"cba"
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_hangs_is_ended_and_whoever_comes_next_gets_another() -> None:
    with opened(1) as apart:
        with pytest.raises(Lost) as lost:
            apart.ask(lambda _: b"hang")
        assert lost.value.late


def test_who_asks_while_it_is_closed_is_told() -> None:
    told: list[bool] = []
    with opened(120) as apart:
        asked = threading.Event()

        def question(_: int) -> bytes:
            asked.set()
            return b"hang"

        def ask() -> None:
            with pytest.raises(Lost) as lost:
                apart.ask(question)
            told.append(lost.value.late)

        thread = threading.Thread(target=ask)
        thread.start()
        assert asked.wait(60)
    thread.join(60)
    assert told == [False]
    with pytest.raises(Lost):
        apart.ask(lambda _: b"abc")
