"""Build a release into `dist/`: wheels, source distribution, SBOM, licenses and checksums.

    python -m tools.dist [--output DIR] [--without-console]

`hedgerow` installs everything. `hedgerow-slim` has the same files, and needs only the packages that
no extra of pyproject.toml names. Its extras add the others.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from hedgerow import __version__
from tools.sbom import format_licenses, format_sbom, list_components, list_console_components
from tools.slim_wheel import write_slim_wheel

REPOSITORY = Path(__file__).parents[1]
DIST = REPOSITORY / "dist"
CONSOLE_PAGE = REPOSITORY / "src/hedgerow/http/console/static/index.html"
# Extras that name packages beyond those of the default installation.
EXTRAS_WITH_MORE = ("dev", "geoip", "nats", "otel")
CHECKSUMS = "SHA256SUMS"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.dist")
    parser.add_argument("--output", type=Path, default=DIST, help="folder, replaced if it exists")
    parser.add_argument("--without-console", action="store_true", help="for tests")
    arguments = parser.parse_args()
    if not arguments.without_console and not CONSOLE_PAGE.is_file():
        sys.exit("The web console is not built: run `make console` first.")
    build(arguments.output)
    for file in sorted(arguments.output.iterdir()):
        print(f"{file.stat().st_size / 1e6:8.2f} MB  {file.name}")


def build(folder: Path) -> None:
    """Write all files of a release into a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for target in ("wheel", "sdist"):
        run_hatchling(target, folder)
    project = read_project()
    wheel = folder / f"hedgerow-{__version__}-py3-none-any.whl"
    write_slim_wheel(wheel, folder, split_requirements(project))
    components = [*list_components(project["dependencies"]), *list_console_components()]
    (folder / f"hedgerow-{__version__}.cdx.json").write_text(format_sbom(wheel, components))
    (folder / f"hedgerow-{__version__}-licenses.md").write_text(format_licenses(components))
    write_checksums(folder)


def run_hatchling(target: str, folder: Path) -> None:
    subprocess.run(  # noqa: S603 - this Python, our build tool
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", folder],
        cwd=REPOSITORY,
        check=True,
        stderr=subprocess.DEVNULL,
    )


def read_project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return project


def split_requirements(project: dict[str, Any]) -> dict[str, list[str]]:
    """Return the requirements of the slim wheel by extra. `""` is for those it always needs."""
    extras: dict[str, list[str]] = dict(project["optional-dependencies"])
    del extras["dev"]
    optional = {
        requirement
        for name, named in extras.items()
        if name not in EXTRAS_WITH_MORE
        for requirement in named
    }
    needed = [each for each in project["dependencies"] if each not in optional]
    return {"": needed, **extras, "all": sorted(optional)}


def write_checksums(folder: Path) -> None:
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
        for file in sorted(folder.iterdir())
    ]
    (folder / CHECKSUMS).write_text("".join(lines))


if __name__ == "__main__":
    main()
