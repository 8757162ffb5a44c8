"""A connection to NATS JetStream, and the stream of the inbox on the server."""

import asyncio
import secrets
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec
import structlog

from hedgerow.lib import jsonio
from hedgerow.lib.optional_packages import import_package
from hedgerow.storage.ingestion.stream_index import StreamRow

DEFAULT_STREAM = "hedgerow"
# A row has up to 2 MiB, or one event of up to 1 MB of JSON, which may need more when it is encoded.
MIN_MAX_PAYLOAD = 4 << 20
CONNECT_TIMEOUT_S = 3.0
REQUEST_TIMEOUT_S = 5.0
# Closing waits for the server to read what was sent before.
CLOSE_TIMEOUT_S = 3.0
STREAM_NOT_FOUND = 10059
MESSAGE_NOT_FOUND = 10037

_log = structlog.get_logger("hedgerow.inbox")
_decode_rows = msgspec.msgpack.Decoder(list[StreamRow]).decode


class StreamError(OSError):
    """The server refused a request, or cannot be used. `code` is that of JetStream."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class StreamState(msgspec.Struct, frozen=True, kw_only=True):
    era: str
    first: int
    last: int
    messages: int
    size: int
    max_size: int
    # When the first message was stored.
    first_at: datetime


class JetStreamConnection:
    """One connection. It does not reconnect: what it had sent would be sent again."""

    def __init__(self, url: str) -> None:
        servers, self.stream = split_stream_url(url)
        self._servers = servers
        self._nats: Any = None
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def max_payload(self) -> int:
        return int(self._nats.max_payload)

    @property
    def version(self) -> str:
        found = self._nats.connected_server_version
        return f"{found.major}.{found.minor}.{found.patch}"

    async def open(self) -> None:
        nats = import_package("nats")

        async def note_loss() -> None:
            if not self._lost.done():
                self._lost.set_result(None)

        async def note_error(error: Exception) -> None:
            _log.debug("nats", error=str(error))

        self._nats = nats.NATS()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self._nats.connect(
                    self._servers,
                    name="hedgerow inbox",
                    allow_reconnect=False,
                    connect_timeout=CONNECT_TIMEOUT_S,
                    closed_cb=note_loss,
                    disconnected_cb=note_loss,
                    error_cb=note_error,
                )
        except (OSError, TimeoutError, nats.errors.Error) as error:
            await self.close()
            raise StreamError(f"NATS cannot be reached: {error or type(error).__name__}") from error
        except asyncio.CancelledError:
            await self.close()
            raise
        if self.max_payload < MIN_MAX_PAYLOAD:
            await self.close()
            raise StreamError(
                "The NATS server accepts messages of up to"
                f" {self.max_payload} bytes. Set `max_payload: 8MB` in its configuration."
            )

    async def close(self) -> None:
        if self._nats is not None:
            with suppress(OSError, TimeoutError, import_package("nats").errors.Error):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._nats.close()

    async def request(
        self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None
    ) -> Any:
        """Send a request, and return the response. It fails at once if the connection is lost."""
        nats = import_package("nats")
        task = asyncio.ensure_future(
            self._nats.request(subject, payload, timeout=REQUEST_TIMEOUT_S, headers=headers)
        )
        try:
            await asyncio.wait({task, self._lost}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise StreamError("The connection to NATS is lost.")
            return task.result()
        except (OSError, TimeoutError, nats.errors.Error) as error:
            raise StreamError(f"NATS does not answer: {error or type(error).__name__}") from error
        finally:
            task.cancel()

    async def call(self, name: str, body: Any = None) -> Any:
        """Call the JetStream API. Raises StreamError."""
        payload = b"" if body is None else jsonio.encode(body)
        return read_answer(await self.request(f"$JS.API.{name}", payload))

    async def subscribe(self) -> tuple[str, Any]:
        """Return a new subject for responses, and its subscription."""
        subject = self._nats.new_inbox()
        return subject, await self._nats.subscribe(subject, pending_bytes_limit=-1)

    async def publish(self, subject: str, payload: bytes, reply: str) -> None:
        await self._nats.publish(subject, payload, reply=reply)

    async def fetch_state(self) -> StreamState:
        return _read_state(await self.call(f"STREAM.INFO.{self.stream}"))


async def inspect_stream(url: str) -> tuple[str, StreamState | None]:
    """Return the version of the server, and the state of the stream if it exists. Raises
    StreamError."""
    connection = JetStreamConnection(url)
    await connection.open()
    try:
        return connection.version, await connection.fetch_state()
    except StreamError as error:
        if error.code == STREAM_NOT_FOUND:
            return connection.version, None
        raise
    finally:
        await connection.close()


def split_stream_url(url: str) -> tuple[list[str], str]:
    """Return the servers of the setting, and the name of the stream: the path, if there is one."""
    servers, stream = [], DEFAULT_STREAM
    for each in url.split(","):
        parts = urlsplit(each)
        stream = parts.path.strip("/") or stream
        servers.append(urlunsplit(parts._replace(path="")))
    return servers, stream


def read_answer(message: Any) -> Any:
    answer = jsonio.decode(message.data)
    if "error" in answer:
        error = answer["error"]
        raise StreamError(error.get("description", ""), error.get("err_code", 0))
    return answer


def _read_state(info: Any) -> StreamState:
    state, (subject, *_) = info["state"], info["config"]["subjects"]
    return StreamState(
        era=subject.rpartition(".")[2],
        first=state["first_seq"],
        last=state["last_seq"],
        messages=state["messages"],
        size=state["bytes"],
        max_size=info["config"]["max_bytes"],
        first_at=datetime.fromisoformat(state["first_ts"]),
    )


async def ensure_stream(connection: JetStreamConnection, max_bytes: int) -> StreamState:
    try:
        info = await connection.call(f"STREAM.INFO.{connection.stream}")
    except StreamError as error:
        if error.code != STREAM_NOT_FOUND:
            raise
        # Another process may create it at the same time, with another era.
        with suppress(StreamError):
            await _create_stream(connection, max_bytes)
        return await connection.fetch_state()
    if info["config"]["max_bytes"] != max_bytes:
        await update_stream(connection, {"max_bytes": max_bytes})
    return _read_state(info)


async def _create_stream(connection: JetStreamConnection, max_bytes: int) -> None:
    name = connection.stream
    config = {
        "name": name,
        "subjects": [f"{name}.{make_era()}"],
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "max_bytes": max_bytes,
        "num_replicas": 1,
    }
    await connection.call(f"STREAM.CREATE.{name}", config)


async def update_stream(connection: JetStreamConnection, changes: Mapping[str, Any]) -> None:
    name = connection.stream
    info = await connection.call(f"STREAM.INFO.{name}")
    await connection.call(f"STREAM.UPDATE.{name}", {**info["config"], **changes})


def make_era() -> str:
    return secrets.token_hex(8)


async def fetch_message(
    connection: JetStreamConnection, sequence: int
) -> Sequence[StreamRow] | None:
    try:
        answer = await connection.call(f"STREAM.MSG.GET.{connection.stream}", {"seq": sequence})
    except StreamError as error:
        if error.code == MESSAGE_NOT_FOUND:
            return None
        raise
    return _decode_rows(b64decode(answer["message"]["data"]))


def read_place(reply: str) -> tuple[int, int]:
    """Return the sequence numbers of a message in the stream and in what follows it. The subject
    ends with them, a time and the number of pending messages."""
    *_, sequence, delivered, _, _ = reply.split(".")
    return int(sequence), int(delivered)
