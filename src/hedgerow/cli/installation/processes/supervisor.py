"""The supervisor: starts the processes of `hedgerow serve --processes N`, replaces those that end,
and stops them together.

It holds their sockets, so connections wait instead of failing while a process is replaced. It runs
in a small process of its own: `start_supervisor` replaces the current program by it.
"""

import asyncio
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import msgspec

from hedgerow.cli.installation.processes.plan import ProcessPlan, SupervisorPlan
from hedgerow.lib.workers.signals import DRAIN_SIGNAL

MODULE = "hedgerow.cli.installation.processes"
# Before a process that has crashed is replaced; longer after each further crash.
FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 30.0
# A process that has run for so long starts with the first pause again.
STABLE_S = 60.0
# Beyond the grace period, for closing the stores.
CLOSE_TIMEOUT_S = 120.0
# What processes write to their control socket, in lines: that they are ready, and which reader does
# not answer its owner.
READY = b"ready"
REPLACE = b"replace"


def listen_for_readers() -> tuple[socket.socket, str]:
    """Return the internal socket of an owner, and its path, which only this user can open."""
    # The path of a socket must be short, and a data directory may have a long one.
    folder = tempfile.mkdtemp(prefix="hedgerow-")
    path = str(Path(folder) / "owner")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(1024)
    return listening, path


def start_supervisor(plan: SupervisorPlan) -> NoReturn:
    """Replace this program by the supervisor, which needs none of its modules."""
    for each in (*plan.sockets, plan.owner_socket):
        if each is not None:
            os.set_inheritable(each, True)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, _build_command("supervisor", plan))  # noqa: S606 - this Python


def _build_command(module: str, plan: msgspec.Struct) -> list[str]:
    # -P: modules must not come from the current folder.
    return [sys.executable, "-P", "-m", f"{MODULE}.{module}", msgspec.json.encode(plan).decode()]


class SupervisedProcess:
    """A process that is started again when it ends, until the supervisor stops."""

    def __init__(
        self, plan: SupervisorPlan, number: int, replace: Callable[[int, int], None]
    ) -> None:
        """`replace` gets the number and the process id of a reader."""
        self.number = number
        self._replace = replace
        self.is_reader = plan.owner_socket is not None and number > 0
        self.ready = asyncio.Event()
        self._plan = plan
        self._process: asyncio.subprocess.Process | None = None
        self._is_first_start = True
        self._is_starting = True

    async def run_once(self) -> int:
        """Start the process, and return its exit status once it has ended."""
        ours, theirs = socket.socketpair()
        self._is_starting = True
        with ours:
            with theirs:
                self._process = await self._start(theirs)
            ours.setblocking(False)
            listening = asyncio.create_task(self._listen(ours))
            try:
                return await self._process.wait()
            finally:
                listening.cancel()
                self._process = None
                self._is_first_start = False

    async def _start(self, control: socket.socket) -> asyncio.subprocess.Process:
        plan, number = self._plan, self.number
        sockets = [plan.sockets[number], *plan.sockets[:number], *plan.sockets[number + 1 :]]
        owns_readers = plan.owner_socket is not None and not self.is_reader
        child = ProcessPlan(
            program=plan.program,
            address=plan.address,
            number=number,
            sockets=sockets,
            control=control.fileno(),
            overrides=plan.overrides,
            has_worker=plan.has_worker,
            announces=number == 0 and self._is_first_start,
            drain_s=plan.drain_s,
            owner_socket=plan.owner_socket if owns_readers else None,
            owner_path=plan.owner_path if self.is_reader else "",
        )
        descriptors = [*sockets, control.fileno()]
        if owns_readers and plan.owner_socket is not None:
            descriptors.append(plan.owner_socket)
        return await asyncio.create_subprocess_exec(
            *_build_command("reader" if self.is_reader else "full_service", child),
            pass_fds=descriptors,
            # Ctrl-C in a terminal must reach the supervisor only, which stops them in order.
            process_group=0,
        )

    async def _listen(self, control: socket.socket) -> None:
        pending = b""
        while received := await asyncio.get_running_loop().sock_recv(control, 1024):
            *lines, pending = (pending + received).split(b"\n")
            for line in lines:
                command, *numbers = line.split()
                if command == READY:
                    self._is_starting = False
                    self.ready.set()
                elif command == REPLACE:
                    self._replace(*map(int, numbers))

    def kill(self, pid: int) -> None:
        """Kill the process unless it is another one by now."""
        if self._process is not None and self._process.pid == pid:
            _report(f"process {self.number} does not answer: ending it")
            self.send_signal(signal.SIGKILL)

    def send_signal(self, number: signal.Signals) -> None:
        if number == signal.SIGINT and self._is_starting:
            number = signal.SIGTERM  # Python would print where it was interrupted
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)


class Supervisor:
    def __init__(self, plan: SupervisorPlan) -> None:
        self._plan = plan
        self._processes = [
            SupervisedProcess(plan, each, lambda number, pid: self._processes[number].kill(pid))
            for each in range(len(plan.sockets))
        ]
        self._stopping = asyncio.Event()
        self._signal = signal.SIGTERM
        self._status = 0

    async def run(self) -> int:
        """Run the processes until a signal stops them. Return the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._handle_signal, number)
        running = {each: asyncio.create_task(self._keep(each)) for each in self._processes}
        await self._stopping.wait()
        for each in self._plan.sockets:
            os.close(each)  # new connections are refused once the processes do not listen
        readers = [running[each] for each in self._processes if each.is_reader]
        if readers:
            began = time.monotonic()
            await self._wait(readers)
            drain_s = self._plan.drain_s if self._signal == signal.SIGTERM else 0
            await asyncio.sleep(max(0, began + drain_s - time.monotonic()))
            self._processes[0].send_signal(self._signal)
        await self._wait(list(running.values()))
        return self._status

    async def _wait(self, tasks: list["asyncio.Task[None]"]) -> None:
        limit_s = self._plan.drain_s + self._plan.grace_s + CLOSE_TIMEOUT_S
        _, pending = await asyncio.wait(tasks, timeout=limit_s)
        if pending:
            self._send_all(signal.SIGKILL)
            await asyncio.wait(tasks)

    def _handle_signal(self, number: signal.Signals) -> None:
        """A second signal reaches all processes at once."""
        number = signal.SIGTERM if number == signal.SIGHUP else number
        if self._stopping.is_set():
            self._send_all(number)
            return
        self._signal = number
        self._stopping.set()
        for each in self._processes:
            if each.is_reader or self._plan.owner_socket is None:
                each.send_signal(number)
            elif number == signal.SIGTERM:
                # Readers need their owner until they have stopped: then it gets another signal.
                each.send_signal(DRAIN_SIGNAL)

    def _send_all(self, number: signal.Signals) -> None:
        for each in self._processes:
            each.send_signal(number)

    async def _keep(self, process: SupervisedProcess) -> None:
        """Run a process again and again. The first one prepares the database for the others."""
        first, pause_s = self._processes[0], FIRST_PAUSE_S
        if process is not first:
            await self._wait_for_first(first)
        while not self._stopping.is_set():
            began = time.monotonic()
            status = await process.run_once()
            if self._stopping.is_set():
                # One that was still starting is ended by the signal itself.
                if status not in (-self._signal, -signal.SIGTERM, -DRAIN_SIGNAL):
                    self._status = max(self._status, _exit_status(status))
                return
            if process is first and not process.ready.is_set():
                self._status = _exit_status(status) or 1  # the reason is on stderr
                self._handle_signal(signal.SIGTERM)
                return
            if time.monotonic() - began > STABLE_S:
                pause_s = FIRST_PAUSE_S
            _report(f"process {process.number} ended with status {status}: starting another one")
            if status:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), pause_s)
                pause_s = min(2 * pause_s, MAX_PAUSE_S)

    async def _wait_for_first(self, first: SupervisedProcess) -> None:
        waiting = [
            asyncio.create_task(first.ready.wait()),
            asyncio.create_task(self._stopping.wait()),
        ]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()


def _exit_status(status: int) -> int:
    """Return the status that a shell reports for a process which a signal has ended."""
    return status if status >= 0 else 128 - status


def _report(text: str) -> None:
    print(f"hedgerow: {text}", file=sys.stderr, flush=True)


def main() -> None:
    plan = msgspec.json.decode(sys.argv[1], type=SupervisorPlan)
    try:
        status = asyncio.run(Supervisor(plan).run())
    finally:
        if plan.owner_path:
            shutil.rmtree(Path(plan.owner_path).parent, ignore_errors=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
