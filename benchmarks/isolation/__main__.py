"""What a project notices while another one attacks the same installation.

    python -m benchmarks.isolation [attack ...] [--seconds 8]

The victim runs in a separate process, first without an attack (the reference), then during each
one. The first table is about attacks on what all projects share: 50 `/decide` requests a second.
The second one is about what projects wait for, each attack in a new service: `/decide`, capture,
when an event can be read and when it is delivered, and an import of three lines. Times are p99 and
maximum, or the maximum, in milliseconds. The memory is the peak of the main process, and the peak
of what all processes have together (PSS), in MiB.

Loopback only, bounded in count and time.
"""

import argparse
import asyncio
import os
import signal
import sys
from contextlib import suppress

from benchmarks.isolation.attacks import ATTACKS, Attack
from benchmarks.isolation.installation import (
    Memory,
    Refused,
    World,
    open_servers,
    open_world,
    percentile,
    resident_mib,
    run_edge,
    run_service,
    watch_memory,
)
from benchmarks.isolation.neighbors import FEW_DESCRIPTORS, NEIGHBORS, attack_edge_inbox
from benchmarks.isolation.probe import Latencies, Scope, probe, run_probe, run_victim

# Slow connections are tried against a service with few file descriptors.
SLOW_CONNECTIONS_DESCRIPTORS = 300
# Longer than what an attack needs to be under way.
NEIGHBOR_SECONDS = 20.0
EDGE_INBOX = "edge-inbox"


def show(name: str, latencies: list[float], reference_p99: float, rest: str) -> None:
    p50, p99 = percentile(latencies, 0.5), percentile(latencies, 0.99)
    print(
        f"  {name:<18} {p50:>8.1f} {p99:>8.1f} {latencies[-1]:>9.1f}"
        f" {p99 - reference_p99:>+8.1f}  {rest}",
        flush=True,
    )


async def measure_attack(world: World, attack: Attack, seconds: float) -> tuple[list[float], str]:
    """Return the latencies during the attack, and what the attacker saw."""
    world.answers.clear()
    attacking = asyncio.ensure_future(attack(world))
    memory = asyncio.create_task(watch_memory(world))
    await asyncio.sleep(0.5)
    refused = ""
    latencies = await run_probe(world, seconds)
    if attacking.done() and isinstance(error := attacking.exception(), Refused):
        refused = f"refused: {error}"
    attacking.cancel()
    with suppress(asyncio.CancelledError, Refused):
        await attacking
    memory.cancel()
    return latencies, f"{(await memory).all_mib:>7,.0f}  {dict(world.answers)} {refused}"


async def measure_service(names: list[str], descriptors: int, options: argparse.Namespace) -> None:
    with run_service(descriptors, options) as (port, pid):
        async with open_world(port, pid) as world:
            await run_probe(world, 1)
            reference = await run_probe(world, options.seconds)
            p99 = percentile(reference, 0.99)
            show("no attack", reference, p99, f"{resident_mib(pid):>7,.0f}")
            for name in names:
                latencies, rest = await measure_attack(world, ATTACKS[name], options.seconds)
                show(name, latencies, p99, rest)
                await asyncio.sleep(3)  # what still runs must not count for the next attack


def last(latencies: list[float]) -> str:
    return f"{latencies[-1]:.0f}" if latencies else "-"


def show_victim(name: str, found: Latencies, memory: Memory, answers: str) -> None:
    decide, capture = found.decide, found.capture
    print(
        f"  {name:<18} {percentile(decide, 0.99):>8.0f} {decide[-1]:>7.0f}"
        f" {percentile(capture, 0.99):>8.0f} {capture[-1]:>7.0f} {last(found.readable):>8}"
        f" {last(found.delivered):>9} {last(found.imported):>8} {memory.main_mib:>6.0f}"
        f" {memory.all_mib:>6.0f}  {answers}",
        flush=True,
    )


async def measure_edge(options: argparse.Namespace) -> None:
    """An attack on the inbox of an edge process whose origin is away, with the public key."""
    with run_service(0, options) as (port, pid):
        async with open_world(port, pid) as world:
            secrets = [await world.rotate_secret(id) for id in (1, world.victim_project)]
            with run_edge(port, secrets) as (edge_address, edge_pid):
                world.victim_address = edge_address
                await run_victim(world, 1, Scope.EDGE)
                os.kill(pid, signal.SIGKILL)
                world.pid = edge_pid
                memory = asyncio.create_task(watch_memory(world))
                attacking = asyncio.ensure_future(attack_edge_inbox(world))
                await asyncio.wait([attacking], timeout=options.lead)
                found = await run_victim(world, options.seconds, Scope.EDGE)
                attacking.cancel()
                with suppress(asyncio.CancelledError):
                    await attacking
                memory.cancel()
                show_victim(EDGE_INBOX, found, await memory, str(dict(world.answers)))


async def measure_neighbor(name: str, options: argparse.Namespace) -> None:
    with run_service(FEW_DESCRIPTORS.get(name, 0), options) as (port, pid):
        async with open_world(port, pid) as world:
            await run_victim(world, 1)
            memory = asyncio.create_task(watch_memory(world))
            if name == "no attack":
                found = await run_victim(world, options.seconds)
            else:
                attacking = asyncio.ensure_future(NEIGHBORS[name](world))
                # Making a hundred records takes a while.
                await asyncio.wait([attacking], timeout=options.lead)
                found = await run_victim(world, max(options.seconds, NEIGHBOR_SECONDS))
                if attacking.done() and (error := attacking.exception()):
                    print(f"  {name}: {error!r}")
                attacking.cancel()
                with suppress(asyncio.CancelledError, Refused):
                    await attacking
            memory.cancel()
            show_victim(name, found, await memory, str(dict(world.answers)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    choices = [*ATTACKS, *NEIGHBORS, EDGE_INBOX]
    parser.add_argument("attacks", nargs="*", choices=[[], *choices], default=[])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--lead", type=float, default=2.0)
    parser.add_argument("--postgres", action="store_true", help="with PostgreSQL and ClickHouse")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    with open_servers(wanted=options.postgres) as servers:
        options.servers = servers
        measure(options)


def measure(options: argparse.Namespace) -> None:
    choices = [*ATTACKS, *NEIGHBORS, EDGE_INBOX]
    names = options.attacks or choices
    print(f"load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    ordinary = [name for name in names if name in ATTACKS and name != "slow-connections"]
    if set(names) & set(ATTACKS):
        print(
            f"  {'/decide, ms':<18} {'p50':>8} {'p99':>8} {'max':>9} {'added':>8}"
            f"  {'MiB':>7}  answers"
        )
    if ordinary:
        asyncio.run(measure_service(ordinary, 0, options))
    if "slow-connections" in names:
        asyncio.run(measure_service(["slow-connections"], SLOW_CONNECTIONS_DESCRIPTORS, options))
    neighbors = [name for name in names if name in NEIGHBORS]
    if neighbors or EDGE_INBOX in names:
        print(
            f"  {'':<18} {'/decide':>8} {'max':>7} {'capture':>8} {'max':>7} {'readable':>8}"
            f" {'delivered':>9} {'imported':>8} {'main':>6} {'all':>6}  answers"
        )
    for name in ["no attack", *neighbors] if neighbors else []:
        asyncio.run(measure_neighbor(name, options))
    if EDGE_INBOX in names:
        asyncio.run(measure_edge(options))


if __name__ == "__main__":
    if sys.argv[1:2] == ["probe"]:
        address, key, project, seconds, scope = sys.argv[2:]
        probe(address, key, int(project), float(seconds), Scope(scope))
    else:
        main()
