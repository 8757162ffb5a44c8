"""Kafka: produces one message per event to a topic of Kafka or a broker with the same protocol."""

import asyncio
import json
import socket
import ssl
from collections.abc import Sequence
from typing import Any

import certifi
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from hedgerow.plugin import (
    DELIVERY_SETTINGS,
    FILTER_SETTINGS,
    REPLAY_JOB,
    TEST_CONNECTION_JOB,
    CheckAddress,
    Component,
    Delivered,
    DeliveryContext,
    Event,
    Failed,
    Family,
    Invalid,
    Outcome,
    SettingField,
    Settings,
    SettingType,
    TransportError,
    batch_settings,
    build_payload,
)

REQUEST_TIMEOUT_MS = 10_000
BATCH_TIMEOUT_S = 45
MAX_TOPIC_CHARS = 249
MAX_SERVERS = 20
MAX_MESSAGE_BYTES = 10 * 1024 * 1024

PLAINTEXT, TLS = "none", "tls"
NO_LOGIN, PLAIN, SCRAM_256, SCRAM_512 = "none", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"
KEYS = ("distinct_id", "person_id", "uuid", "none")


class GuardedLoop(asyncio.SelectorEventLoop):
    """Connects to allowed addresses only. Brokers name further brokers, so the guard must be where
    connections are made."""

    def __init__(self, check_address: CheckAddress) -> None:
        super().__init__()
        self._check_address = check_address
        # Why the last address was refused. The client library reports that no broker answers.
        self.refusal = ""

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        try:
            self._check_address(str(address[0]))
        except TransportError as error:
            self.refusal = str(error)
            raise ConnectionRefusedError(self.refusal) from None
        await super().sock_connect(sock, address)


def check(settings: Settings) -> None:
    servers = _split_servers(settings)
    if not servers or len(servers) > MAX_SERVERS or not all(map(_is_server, servers)):
        detail = "A list of host:port is required, such as kafka-1:9092, kafka-2:9092."
        raise Invalid(detail, attr="config__bootstrap_servers")
    topic = settings["topic"]
    plain = topic.replace(".", "").replace("_", "").replace("-", "")
    if not (plain.isascii() and plain.isalnum()) or len(topic) > MAX_TOPIC_CHARS:
        detail = f"Use 1 to {MAX_TOPIC_CHARS} letters, digits and the characters . _ -"
        raise Invalid(detail, attr="config__topic")
    if settings["login"] != NO_LOGIN and not (settings["user"] and settings["password"]):
        detail = "A login needs a user and a password."
        raise Invalid(detail, attr="config__user" if not settings["user"] else "config__password")


def _split_servers(settings: Settings) -> list[str]:
    return [each.strip() for each in settings["bootstrap_servers"].split(",") if each.strip()]


def _is_server(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and host.isprintable() and port.isdecimal() and 0 < int(port) < 65536


async def deliver(
    events: Sequence[Event], settings: Settings, ctx: DeliveryContext
) -> Sequence[Outcome]:
    def produce() -> Sequence[Outcome]:
        loop = GuardedLoop(ctx.check_address)
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                return runner.run(_produce(events, settings))
            except (KafkaError, OSError) as error:
                reason = _describe(loop.refusal or error, settings)
                return [Failed(reason=reason)] * len(events)

    return await ctx.run_in_thread(produce)


async def _produce(events: Sequence[Event], settings: Settings) -> Sequence[Outcome]:
    """Produce a batch on connections of its own, so that nothing stays open between batches."""
    try:
        async with asyncio.timeout(BATCH_TIMEOUT_S):
            producer = AIOKafkaProducer(**_producer_options(settings))
            try:
                await producer.start()
                futures = [await _send(producer, event, settings) for event in events]
                results = await asyncio.gather(*futures, return_exceptions=True)
            finally:
                await producer.stop()
    except TimeoutError:
        reason = f"the brokers did not take the events within {BATCH_TIMEOUT_S} s"
        raise ConnectionError(reason) from None
    return [_classify(result, settings) for result in results]


async def _send(
    producer: AIOKafkaProducer, event: Event, settings: Settings
) -> "asyncio.Future[Any]":
    body = json.dumps(build_payload(event), ensure_ascii=False).encode()
    key = None if settings["key"] == "none" else str(getattr(event, settings["key"])).encode()
    try:
        # A consumer that must not see an event twice compares the uuid.
        headers = [("uuid", event.uuid.encode())]
        sent: asyncio.Future[Any] = await producer.send(
            settings["topic"], body, key=key, headers=headers
        )
    except MessageSizeTooLargeError as error:
        sent = asyncio.get_running_loop().create_future()
        sent.set_exception(error)
    return sent


def _producer_options(settings: Settings) -> dict[str, Any]:
    protocol = "SSL" if settings["encryption"] == TLS else "PLAINTEXT"
    options: dict[str, Any] = {
        "bootstrap_servers": _split_servers(settings),
        "client_id": "hedgerow",
        "acks": "all",
        "enable_idempotence": True,
        "compression_type": "gzip",
        "request_timeout_ms": REQUEST_TIMEOUT_MS,
        "max_request_size": MAX_MESSAGE_BYTES,
    }
    if settings["login"] != NO_LOGIN:
        protocol = f"SASL_{protocol}"
        options |= {
            "sasl_mechanism": settings["login"],
            "sasl_plain_username": settings["user"],
            "sasl_plain_password": settings["password"],
        }
    if settings["encryption"] == TLS:
        options["ssl_context"] = ssl.create_default_context(cafile=certifi.where())
    return options | {"security_protocol": protocol}


def _classify(result: Any, settings: Settings) -> Outcome:
    if not isinstance(result, BaseException):
        return Delivered()
    # Anything but a message that is too large may work later, so the events wait.
    is_rejected = isinstance(result, MessageSizeTooLargeError)
    return Failed(
        reason=_describe(result, settings), is_final=is_rejected, event_rejected=is_rejected
    )


def _describe(error: BaseException | str, settings: Settings) -> str:
    detail = str(error) or type(error).__name__
    return f"Kafka ({settings['bootstrap_servers']}, topic {settings['topic']}): {detail}"


COMPONENT = Component(
    key="hedgerow/kafka-topic",
    family=Family.DESTINATION,
    name="Kafka topic",
    description="Produces events to a topic of Kafka, Redpanda or a compatible broker.",
    version="1.0.0",
    settings=(
        SettingField(
            key="bootstrap_servers",
            name="Bootstrap servers",
            required=True,
            is_address=True,
            hint="host:port, several with commas between them",
        ),
        SettingField(key="topic", name="Topic", required=True, is_address=False),
        SettingField(
            key="key",
            name="Key of messages",
            type=SettingType.CHOICE,
            choices=KEYS,
            default=KEYS[0],
            hint="Messages with the same key keep their order.",
        ),
        SettingField(
            key="encryption",
            name="Encryption",
            type=SettingType.CHOICE,
            choices=(TLS, PLAINTEXT),
            default=TLS,
        ),
        SettingField(
            key="login",
            name="Login",
            type=SettingType.CHOICE,
            choices=(NO_LOGIN, PLAIN, SCRAM_256, SCRAM_512),
            default=NO_LOGIN,
        ),
        SettingField(key="user", name="User", default=""),
        SettingField(key="password", name="Password", secret=True),
        *FILTER_SETTINGS,
        *DELIVERY_SETTINGS,
        *batch_settings(size=500, seconds=2),
    ),
    jobs=(REPLAY_JOB, TEST_CONNECTION_JOB),
    check=check,
    deliver=deliver,
)
