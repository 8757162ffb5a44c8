"""Build a release into `dist/`: wheels, source distribution, SBOM, licenses and checksums.

    python -m tools.dist [--output DIR] [--without-console]

`hedgerow` installs everything. `hedgerow-slim` has the same files, and needs only the packages that
no extra of pyproject.toml names. Its extras add the others.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hedgerow import __version__
from tools.slim_wheel import write_slim_wheel

REPOSITORY = Path(__file__).parents[1]
DIST = REPOSITORY / "dist"
CONSOLE_PAGE = REPOSITORY / "src/hedgerow/http/console/static/index.html"
# Extras that name packages beyond those of the default installation.
EXTRAS_WITH_MORE = ("dev", "geoip", "nats", "otel")
CHECKSUMS = "SHA256SUMS"
LICENSE_CLASSIFIER = "License :: "
# Packages whose metadata name no license, but that contain its text.
LICENSES = {"resvg-py": "MIT"}


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
    components = sorted(list_components(project["dependencies"]), key=lambda each: each["name"])
    (folder / f"hedgerow-{__version__}.cdx.json").write_text(format_sbom(components))
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
    extras: dict[str, list[str]] = {
        name: requirements
        for name, requirements in project["optional-dependencies"].items()
        if name not in EXTRAS_WITH_MORE
    }
    optional = {requirement for named in extras.values() for requirement in named}
    needed = [each for each in project["dependencies"] if each not in optional]
    return {"": needed, **extras, "all": sorted(optional)}


def list_components(requirements: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the installed packages that the requirements need, directly or not, in the form of
    CycloneDX."""
    seen: set[tuple[str, str]] = set()
    names: set[str] = set()
    waiting = [
        (each, extra) for each in map(Requirement, requirements) for extra in ("", *each.extras)
    ]
    while waiting:
        requirement, extra = waiting.pop()
        name = str(canonicalize_name(requirement.name))
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for inner in map(Requirement, metadata.requires(name) or ()):
            if inner.marker is None or inner.marker.evaluate({"extra": extra}):
                waiting += [(inner, each) for each in ("", *inner.extras)]
        if name not in names:
            names.add(name)
            yield describe_component(name)


def describe_component(name: str) -> dict[str, Any]:
    found = metadata.distribution(name)
    address = f"pkg:pypi/{name}@{found.version}"
    return {
        "type": "library",
        "bom-ref": address,
        "name": name,
        "version": found.version,
        "licenses": [find_license(found)],
        "purl": address,
    }


def find_license(found: metadata.Distribution) -> dict[str, Any]:
    """Return the license of a package: its SPDX expression, or what its metadata name it."""
    fields = found.metadata.json
    if "license_expression" in fields:
        return {"expression": fields["license_expression"]}
    classifiers = [
        each.rpartition(" :: ")[2]
        for each in fields.get("classifier", ())
        if each.startswith(LICENSE_CLASSIFIER)
    ]
    text = str(fields.get("license", "")).strip()
    is_name = text and "\n" not in text and len(text) <= 60
    name = text if is_name else " or ".join(classifiers)
    name = name or LICENSES.get(str(canonicalize_name(found.metadata["Name"])), "")
    if not name:
        sys.exit(f"{found.metadata['Name']} does not say its license.")
    return {"license": {"name": name}}


def format_sbom(components: Sequence[dict[str, Any]]) -> str:
    product = {
        "type": "application",
        "bom-ref": "hedgerow",
        "name": "hedgerow",
        "version": __version__,
        "licenses": [{"expression": "MIT"}],
        "purl": f"pkg:pypi/hedgerow@{__version__}",
    }
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": product},
        "components": components,
    }
    return json.dumps(document, indent=2) + "\n"


def format_licenses(components: Sequence[dict[str, Any]]) -> str:
    lines = [f"# Licenses of the packages that Hedgerow {__version__} installs", ""]
    lines += ["| Package | Version | License |", "|---|---|---|"]
    for each in components:
        found = each["licenses"][0]
        license = found.get("expression") or found["license"]["name"]
        lines.append(f"| {each['name']} | {each['version']} | {license} |")
    return "\n".join(lines) + "\n"


def write_checksums(folder: Path) -> None:
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
        for file in sorted(folder.iterdir())
    ]
    (folder / CHECKSUMS).write_text("".join(lines))


if __name__ == "__main__":
    main()
