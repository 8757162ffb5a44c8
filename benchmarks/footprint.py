"""What each part of the installation costs: megabytes on disk, and resident after its import.

    python -m benchmarks.footprint

A part is an extra of pyproject.toml with the packages that `hedgerow-slim` alone does not have. The
disk has compiled files, as pip installs them. Then the service is started, and the resident memory
of its processes is measured: at the start, after the first event and after a query, and that of an
edge process beside it.
"""

import py_compile
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path

from packaging.utils import canonicalize_name
from tools.dist import read_project, split_requirements
from tools.sbom import list_components
from tools.try_wheel import (
    BLOCK_SIZE,
    query_events,
    rotate_secret,
    run_edge,
    run_service,
    use_flags_and_capture,
)

REPOSITORY = Path(__file__).parents[1]
PROGRAMS = Path(sys.executable).parent
# What is imported when a part is used.
IMPORTS = {
    "flag evaluation": "hedgerow.flags.evaluation.decide",
    "POST /decide": "hedgerow.http.sdk.decide",
    "edge": "hedgerow.cli.installation.edge",
    "serve": "hedgerow.cli.installation.serve",
    "clickhouse": "hedgerow.storage.events.clickhouse",
    "postgresql": "hedgerow.storage.engine.postgres",
    "experiments": "scipy.special",
    "parquet": "pyarrow.parquet",
    "s3": "awscrt.http",
    "liquid": "hedgerow.plugin.liquid_texts",
}
MEASURE = """
import importlib, re, sys
def resident_kb():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1])
importlib.import_module(sys.argv[1])
before = resident_kb()
importlib.import_module(sys.argv[2])
print(resident_kb() - before, resident_kb())
"""


def list_packages(requirements: Iterable[str]) -> set[str]:
    return {each.name for each in list_components(list(requirements))}


def measure_packages_mb(names: Iterable[str]) -> float:
    files = {Path(str(file.locate())) for name in names for file in metadata.files(name) or ()}
    return sum(map(measure_file, files)) / 1e6


def measure_source_mb() -> float:
    return sum(map(measure_file, (REPOSITORY / "src/hedgerow").rglob("*"))) / 1e6


def measure_file(path: Path) -> int:
    """Return the bytes of a file on the disk, and those of its compiled form."""
    if path.suffix == ".pyc" or not path.is_file():
        return 0
    size = path.stat().st_blocks * BLOCK_SIZE
    if path.suffix == ".py":
        compiled = Path(cache_from_source(str(path)))
        # Nothing but Python 2 code cannot be compiled; pip leaves it, too.
        if not compiled.is_file():
            with suppress(py_compile.PyCompileError):
                py_compile.compile(str(path), doraise=True)
        if compiled.is_file():
            size += compiled.stat().st_blocks * BLOCK_SIZE
    return size


def measure_import_mb(module: str, after: str = "sys") -> tuple[float, float]:
    """Return what an import adds in a process that has imported another module, and the sum."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, after, module], capture_output=True, text=True, check=True
    )
    added, total = map(int, done.stdout.split())
    return added / 1000, total / 1000


def list_parts() -> Iterator[tuple[str, set[str]]]:
    requirements = split_requirements(read_project())
    slim = list_packages(requirements.pop(""))
    for name in ("all", "geoip", "nats", "otel"):
        del requirements[name]
    yield "slim", slim
    for name, needed in requirements.items():
        yield name, list_packages(needed) - slim


def print_parts() -> None:
    print(f"{'part':12} {'MB on disk':>10} {'MB resident':>12}  largest packages")
    everything: set[str] = set()
    for name, packages in list_parts():
        everything |= packages
        size = measure_packages_mb(packages) + (measure_source_mb() if name == "slim" else 0)
        largest = sorted(packages, key=lambda each: -measure_packages_mb([each]))[:4]
        module = IMPORTS.get(name)
        added = f"{measure_import_mb(module, IMPORTS['serve'])[0]:12.0f}" if module else " " * 12
        shown = ", ".join(f"{each} {measure_packages_mb([each]):.0f}" for each in largest)
        print(f"{name:12} {size:10.0f} {added}  {shown}")
    unused = {"pandas"} & set(map(canonicalize_name, everything))
    print(f"all          {measure_packages_mb(everything) + measure_source_mb():10.0f}")
    print(f"installed, because chdb-core requires it, and never imported: {', '.join(unused)}\n")


def print_imports() -> None:
    for name in ("flag evaluation", "POST /decide", "edge", "serve"):
        print(f"{name:20} {measure_import_mb(IMPORTS[name])[1]:6.0f} MB resident after its import")
    print()


def print_service() -> None:
    with (
        tempfile.TemporaryDirectory() as scratch,
        run_service(PROGRAMS, Path(scratch, "data")) as service,
    ):
        print_sizes("first start, with migrations", service.measure_resident_mb())
        use_flags_and_capture(service)
        query_events(service)
        print_sizes("after an event and a query", service.measure_resident_mb())
        with run_edge(PROGRAMS, service.url, rotate_secret(service), Path(scratch, "edge")) as edge:
            print_sizes(
                "edge process", replace(service, process=edge.process).measure_resident_mb()
            )


def print_sizes(moment: str, sizes: dict[str, float]) -> None:
    listed = ", ".join(f"{name.rpartition(' ')[0]} {size:.0f}" for name, size in sizes.items())
    print(f"{sum(sizes.values()):6.0f} MB resident, {moment}: {listed}")


if __name__ == "__main__":
    print_parts()
    print_imports()
    print_service()
