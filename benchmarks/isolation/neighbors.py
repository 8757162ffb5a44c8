"""Attacks of a project on its neighbors, with the rights of its own keys and at the limits of each
project: imports from hostile servers, many destinations and transformations, floods.
"""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import pyarrow  # type: ignore[import-untyped]
from aiohttp import web
from pyarrow import parquet

from benchmarks.isolation.attacks import Attack, repeat
from benchmarks.isolation.installation import Refused, World

MIB = 1 << 20
WEBHOOK = 1
FILES, POSTGRES, INSTANCE = 41, 42, 43
REMOVE_PROPERTIES = 63
MAX_ENABLED = 100
EVENTS = 2_000
SLOW_S = 9.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serve(handler: Handler) -> AsyncIterator[str]:
    """Run a remote server of the attacker, and yield its address."""
    app = web.Application(client_max_size=64 * MIB)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def start_import(world: World, plugin: int, **settings: Any) -> None:
    record = await world.create("pipeline_import_apps_configs", {"plugin": plugin})
    path = f"/api/projects/1/pipeline_import_apps_configs/{record['id']}/"
    await expect(world, "PUT", f"{path}config/", settings)
    await expect(world, "POST", f"{path}job/", {"job": {"type": "import", "payload": {}}})


async def expect(world: World, method: str, path: str, body: Any) -> None:
    response = await world.send(method, path, json=body)
    if response is None or response.is_error:
        raise Refused(response.text[:160] if response is not None else "no answer")


async def attack_instance_pages(world: World) -> None:
    """Another instance whose pages have a million empty objects."""
    page = b'{"next":null,"results":[' + b",".join([b"{}"] * 20_000_000) + b"]}"

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=page, content_type="application/json")

    async with serve(answer) as address:
        for _ in range(3):
            await start_import(world, INSTANCE, host=address, personal_key="phx_x", project_id="1")
        await asyncio.Event().wait()


async def attack_parquet_bomb(world: World) -> None:
    """A file of a few hundred bytes, whose rows unpack to terabytes."""
    text = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array([0] * 1_000_000, pyarrow.int32()), pyarrow.array(["x" * MIB])
    )
    file = io.BytesIO()
    parquet.write_table(pyarrow.table({"event": text}), file, compression="zstd")

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=file.getvalue())

    async with serve(answer) as address:
        for number in range(3):
            await start_import(world, FILES, source=f"{address}/{number}.parquet")
        await asyncio.Event().wait()


async def attack_large_rows(world: World) -> None:
    """A query whose rows have 2 MB."""
    # Its import warns about the environment, and the probe imports this module too.
    server = import_module("tests.support.postgres").PostgresTestServer()
    try:
        url = server.create_database()
        query = "select n, repeat('x', 2000000) as event, 'ann' as distinct_id, now() as timestamp"
        query += " from generate_series(1, 100000) as n"
        await start_import(world, POSTGRES, url=url, query=query, cursor_column="n")
        await asyncio.Event().wait()
    finally:
        server.close()


async def add_destinations(world: World, number: int, address: str) -> None:
    for each in range(number):
        record = await world.create("pipeline_destination_configs", {"plugin": WEBHOOK})
        path = f"/api/projects/1/pipeline_destination_configs/{record['id']}/"
        await expect(world, "PUT", f"{path}config/", {"url": f"{address}/{each}"})
        await expect(world, "PATCH", path, {"enabled": True})


def build_batch(world: World, number: int, **properties: Any) -> dict[str, Any]:
    events = [
        {"event": "flood", "distinct_id": f"p{each}", "properties": properties}
        for each in range(number)
    ]
    return {"api_key": world.key, "batch": events}


async def accept_quickly(request: web.Request) -> web.Response:
    await request.read()
    return web.Response()


async def attack_many_destinations(world: World) -> None:
    """As many destinations as a project may have, and many small events."""
    async with serve(accept_quickly) as address:
        await add_destinations(world, MAX_ENABLED, address)
        await world.send("POST", "/batch/", json=build_batch(world, EVENTS))
        await world.send("POST", "/batch/", json=build_batch(world, 4, text="x" * 400_000))
        await asyncio.Event().wait()


async def attack_large_batches(world: World) -> None:
    """20 destinations, and batches of 13 MB with the public key."""
    async with serve(accept_quickly) as address:
        await add_destinations(world, 20, address)
        for _ in range(4):
            await world.send("POST", "/batch/", json=build_batch(world, 13, text="x" * 990_000))
        await asyncio.Event().wait()


async def attack_transformations(world: World) -> None:
    """As many transformations as a project may have, with patterns that take long."""
    patterns = [
        {"key": "text", "type": "event", "operator": "regex", "value": f"^(a|aa)*{number}?"}
        for number in range(15)
    ]
    slow = [
        {"key": "text", "type": "event", "operator": "regex", "value": f"(?!{number})(a|aa)+"}
        for number in range(5)
    ]
    for _ in range(MAX_ENABLED):
        record = await world.create(
            "pipeline_transformation_configs", {"plugin": REMOVE_PROPERTIES}
        )
        path = f"/api/projects/1/pipeline_transformation_configs/{record['id']}/"
        settings = {"names": ["nothing"], "properties": patterns + slow}
        await expect(world, "PUT", f"{path}config/", settings)
        await expect(world, "PATCH", path, {"enabled": True})
    await repeat(
        lambda: world.send("POST", "/batch/", json=build_batch(world, 300, text="a" * 500)),
        copies=1,
        pause_s=2.0,
    )


async def attack_event_flood(world: World) -> None:
    """6,000 events a second with the public key."""
    body = json.dumps(build_batch(world, 1_000, text="x" * 50)).encode()
    await repeat(
        lambda: world.send("POST", "/batch/", content=body), copies=2, pause_s=1000 / 3_000
    )


async def drip(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"\n")
        await asyncio.sleep(1)


async def attack_drips(world: World) -> None:
    """Imports that never end: a byte a second."""
    async with serve(drip) as address:
        for number in range(24):
            await start_import(world, FILES, source=f"{address}/{number}.jsonl")
        await asyncio.Event().wait()


async def attack_slow_receivers(world: World) -> None:
    """Webhooks that answer after nine seconds."""

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        await asyncio.sleep(SLOW_S)
        return web.Response()

    async with serve(answer) as address:
        await add_destinations(world, MAX_ENABLED, address)
        await repeat(
            lambda: world.send("POST", "/batch/", json=build_batch(world, 50)),
            copies=1,
            pause_s=1.0,
        )


async def attack_edge_inbox(world: World) -> None:
    """Requests of all sizes with the public key, while the origin of an edge process is away."""
    sizes = (900_000, 9_000, 90)
    bodies = [json.dumps(build_batch(world, 1, text="x" * size)).encode() for size in sizes]

    async def send() -> None:
        for body in bodies:
            await world.send("POST", f"{world.victim_address}/batch/", content=body)

    await repeat(send, copies=8)


# The descriptors that a usual container has.
FEW_DESCRIPTORS = {"slow-receivers": 2048}

NEIGHBORS: dict[str, Attack] = {
    "instance-pages": attack_instance_pages,
    "parquet-bomb": attack_parquet_bomb,
    "large-rows": attack_large_rows,
    "many-destinations": attack_many_destinations,
    "large-batches": attack_large_batches,
    "transformations": attack_transformations,
    "event-flood": attack_event_flood,
    "drips": attack_drips,
    "slow-receivers": attack_slow_receivers,
}
