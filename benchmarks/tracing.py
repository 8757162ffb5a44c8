"""What tracing costs /decide, on this machine: off, and exported to a collector that forgets it.

    python -m benchmarks.tracing

Two services take turns, so that other load on the machine affects both.
"""

import statistics
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tools.try_wheel import RunningService, run_service

from benchmarks.edge import PROGRAMS, build_request, send_load

ROUNDS = 5
ROUND_S = 4.0
CONNECTIONS = 8


class _Collector(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def run_collector() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def measure(service: RunningService) -> float:
    person = {"api_key": service.project_key, "distinct_id": "ann"}
    request = build_request("/decide?v=3", person)
    return send_load(service.url, request, CONNECTIONS, ROUND_S).per_second


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as scratch,
        run_collector() as collector,
        run_service(PROGRAMS, Path(scratch, "off")) as off,
        run_service(PROGRAMS, Path(scratch, "on"), OTEL_EXPORTER_OTLP_ENDPOINT=collector) as on,
    ):
        found: dict[str, list[float]] = {"off": [], "on": []}
        for _ in range(ROUNDS):
            found["off"].append(measure(off))
            found["on"].append(measure(on))
    for name, rates in found.items():
        print(
            f"/decide, tracing {name}: median {statistics.median(rates):.0f} per second, "
            f"{min(rates):.0f} to {max(rates):.0f}"
        )


if __name__ == "__main__":
    main()
