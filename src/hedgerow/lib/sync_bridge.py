"""Await inside a synchronous function, as SQLAlchemy does for its asynchronous drivers.

A coroutine that `run_bridged` drives runs in a greenlet of its own. A synchronous function that it
calls can suspend this greenlet until an awaitable is done, while the event loop continues.
"""

import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

T = TypeVar("T")


class _Bridge(greenlet):  # type: ignore[misc]
    """A greenlet whose parent runs the steps of the task."""


@types.coroutine
def run_bridged(coroutine: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Run a coroutine so that functions it calls may use `await_inline`. Tasks that it starts are
    not bridged."""
    bridge = _Bridge(_drive)
    # Context variables are those of the task.
    bridge.gr_context = getcurrent().gr_context
    result = bridge.switch(coroutine)
    while not bridge.dead:
        try:
            sent = yield result
        except BaseException as error:  # noqa: BLE001 - raised again inside the coroutine
            result = bridge.throw(error)
        else:
            result = bridge.switch(sent)
    return result  # type: ignore[no-any-return]


def is_bridged() -> bool:
    """Whether `await_inline` can be used here."""
    return isinstance(getcurrent(), _Bridge)


def await_inline(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine. Only a bridged caller may use this."""
    return _drive(coroutine)


def _drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in this greenlet. The parent passes what it yields to the event loop."""
    parent = getcurrent().parent
    assert parent is not None
    resume, value = coroutine.send, None
    while True:
        try:
            yielded = resume(value)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        try:
            resume, value = coroutine.send, parent.switch(yielded)
        except BaseException as error:  # noqa: BLE001 - raised again inside the coroutine
            resume, value = coroutine.throw, error
