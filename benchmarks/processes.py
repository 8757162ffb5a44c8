"""/decide of one process against two, on all cores: what `hedgerow serve --processes 2` gains.

    python -m benchmarks.processes [--rounds 5] [--wrk PROGRAM]

The world is benchmarks/flag_world.py; properties are given. The load shares the cores with the
servers, so that two processes by the clock gain less than they would on cores of their own. wrk, a
load generator in C, takes less of the cores than ours. The ratio per second of CPU time, twice, is
what two processes gain if the load comes from another machine. Rounds alternate.
"""

import argparse
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import flag_world
from benchmarks.decide import (
    DECIDE,
    configure_servers,
    decide_requests,
    hedgerow,
    run_load,
)
from benchmarks.http import Running

CONNECTIONS = 64
# Long enough for the reader to start and to get the definitions.
WARM_UP_S = 5.0
SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    per_s: float
    per_cpu_s: float
    cores_of_load: float
    refused: int


def read_tree_cpu_s(server: Running) -> float:
    """Return the CPU time of a server and its child processes."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    of_children = (replace(server, pid=int(pid)).cpu_seconds() for pid in children)
    return server.cpu_seconds() + sum(of_children)


def measure_with_own_load(server: Running, requests: Sequence[bytes], seconds: float) -> Result:
    before, own_before = read_tree_cpu_s(server), time.process_time()
    seen = run_load(server.port, requests, connections=CONNECTIONS, seconds=seconds)
    answers = len(seen.latencies)
    return Result(
        per_s=answers / seen.seconds,
        per_cpu_s=answers / (read_tree_cpu_s(server) - before),
        cores_of_load=(time.process_time() - own_before) / seen.seconds,
        # On a busy machine some are refused, because they waited for too long.
        refused=seen.failures,
    )


def measure_with_wrk(
    program: str, server: Running, requests: Sequence[bytes], seconds: float
) -> Result:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(build_wrk_script(requests))
        script.flush()
        before, own_before = read_tree_cpu_s(server), _children_cpu_s()
        options = ("-t1", f"-c{CONNECTIONS}", f"-d{seconds:.0f}s", "-s", script.name)
        output = subprocess.run(
            [program, *options, f"http://127.0.0.1:{server.port}"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        spent_s = read_tree_cpu_s(server) - before
    if "Socket errors" in output:
        raise RuntimeError(output)
    lines = dict(line.strip().split(":", 1) for line in output.splitlines() if ":" in line)
    per_s = float(lines["Requests/sec"])
    return Result(
        per_s=per_s,
        per_cpu_s=per_s * seconds / spent_s,
        cores_of_load=(_children_cpu_s() - own_before) / seconds,
        refused=int(lines.get("Non-2xx or 3xx responses", 0)),
    )


def build_wrk_script(requests: Sequence[bytes]) -> str:
    """Return a Lua script that sends the requests in turns."""
    texts = ",\n".join(f'"{_escape_lua(request.decode())}"' for request in requests)
    return (
        f"local requests = {{\n{texts}\n}}\nlocal at = 0\n"
        "function request()\n  at = at % #requests + 1\n  return requests[at]\nend\n"
    )


def _escape_lua(text: str) -> str:
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\r", "\\r"), ("\n", "\\n")):
        text = text.replace(character, escaped)
    return text


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--wrk", default="")
    arguments = parser.parse_args()
    configure_servers()
    core_count = len(os.sched_getaffinity(0))
    print(
        f"POST {DECIDE}, {flag_world.FLAGS} flags, {CONNECTIONS} connections of"
        f" {'wrk' if arguments.wrk else 'our load'}, load and servers on the same {core_count}"
        f" cores, median of {arguments.rounds} alternating rounds"
    )
    results: dict[int, list[Result]] = {1: [], 2: []}
    for count in list(results) * arguments.rounds:
        os.environ["HEDGEROW_PROCESSES"] = str(count)
        with hedgerow(os.sched_getaffinity(0), flag_count=flag_world.FLAGS) as server:
            requests = decide_requests(server.port, with_properties=True)
            run_load(server.port, requests, connections=CONNECTIONS, seconds=WARM_UP_S)
            if arguments.wrk:
                result = measure_with_wrk(arguments.wrk, server, requests, SECONDS)
            else:
                result = measure_with_own_load(server, requests, SECONDS)
        results[count].append(result)
    print_results(results)


def print_results(results: dict[int, list[Result]]) -> None:
    columns = ("processes", "per s", "per CPU-s", "cores of the load", "refused")
    print("  " + " ".join(f"{name:>17}" for name in columns))
    per_s, per_cpu_s = {}, {}
    for count, found in results.items():
        per_s[count] = statistics.median(each.per_s for each in found)
        per_cpu_s[count] = statistics.median(each.per_cpu_s for each in found)
        load = statistics.median(each.cores_of_load for each in found)
        refused = sum(each.refused for each in found)
        print(
            f"  {count:>17} {per_s[count]:>17,.0f} {per_cpu_s[count]:>17,.0f} {load:>17.2f}"
            f" {refused:>17}"
        )
    print(
        f"  two / one: {per_s[2] / per_s[1]:.2f}x by the clock,"
        f" {2 * per_cpu_s[2] / per_cpu_s[1]:.2f}x with a core for each process"
    )


if __name__ == "__main__":
    main()
