"""The packages of a release, as an SBOM in the form of CycloneDX and as a list of licenses.

The Python packages are those that pip installs with the wheel; those of npm are in the web console,
whose bundles are in the wheel.
"""

import base64
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hedgerow import __version__

CONSOLE = Path(__file__).parents[1] / "console"
# Dependencies of the console that build it, and are not in it.
BUILD_TOOLS = ("vite",)
LICENSE_CLASSIFIER = "License :: "
# Packages whose metadata name no license, but that contain its text.
LICENSES = {"resvg-py": "MIT"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A package, and the addresses of the packages that it requires."""

    name: str
    version: str
    purl: str
    license: str
    requires: tuple[str, ...] = ()
    sha512: str = ""
    is_direct: bool = False


def list_components(requirements: Sequence[str]) -> list[Component]:
    """Return the installed packages that the requirements need, directly or not, by name."""
    direct = {str(canonicalize_name(each.name)) for each in map(Requirement, requirements)}
    extras: dict[str, set[str]] = {}
    required: dict[str, set[str]] = {}
    waiting = [
        (each, extra) for each in map(Requirement, requirements) for extra in ("", *each.extras)
    ]
    while waiting:
        requirement, extra = waiting.pop()
        name = str(canonicalize_name(requirement.name))
        if extra in extras.setdefault(name, set()):
            continue
        extras[name].add(extra)
        for inner in map(Requirement, metadata.requires(name) or ()):
            if inner.marker is None or inner.marker.evaluate({"extra": extra}):
                waiting += [(inner, each) for each in ("", *inner.extras)]
                required.setdefault(name, set()).add(str(canonicalize_name(inner.name)))
    return [
        _describe_python(name, sorted(required.get(name, ())), is_direct=name in direct)
        for name in sorted(extras)
    ]


def _describe_python(name: str, required: Sequence[str], *, is_direct: bool) -> Component:
    found = metadata.distribution(name)
    return Component(
        name=name,
        version=found.version,
        purl=_build_python_purl(name),
        license=_find_license(found),
        requires=tuple(map(_build_python_purl, required)),
        is_direct=is_direct,
    )


def _build_python_purl(name: str) -> str:
    return f"pkg:pypi/{name}@{metadata.version(name)}"


def _find_license(found: metadata.Distribution) -> str:
    """Return the license of a package: its SPDX expression, or what its metadata name it."""
    fields = found.metadata.json
    if "license_expression" in fields:
        return str(fields["license_expression"])
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
    return name


def list_console_components(folder: Path = CONSOLE) -> list[Component]:
    """Return the packages in the web console, directly or not, by name."""
    locked = json.loads((folder / "package-lock.json").read_text())["packages"]
    direct = [name for name in locked[""]["dependencies"] if name not in BUILD_TOOLS]
    names, waiting = set[str](), list(direct)
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            waiting += locked[f"node_modules/{name}"].get("dependencies", ())
    purls = {name: _build_npm_purl(name, locked[f"node_modules/{name}"]) for name in names}
    return [
        Component(
            name=name,
            version=package["version"],
            purl=purls[name],
            license=package["license"],
            requires=tuple(purls[each] for each in sorted(package.get("dependencies", ()))),
            sha512=base64.b64decode(package["integrity"].removeprefix("sha512-")).hex(),
            is_direct=name in direct,
        )
        for name in sorted(names)
        for package in (locked[f"node_modules/{name}"],)
    ]


def _build_npm_purl(name: str, package: dict[str, Any]) -> str:
    return f"pkg:npm/{quote(name)}@{package['version']}"


def format_sbom(wheel: Path, components: Sequence[Component]) -> str:
    """Write the SBOM of a wheel. Equal wheels and packages have equal ones, so it has no time."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    purl = f"pkg:pypi/hedgerow@{__version__}"
    product = {
        "type": "application",
        "bom-ref": purl,
        "name": "hedgerow",
        "version": __version__,
        "hashes": [{"alg": "SHA-256", "content": digest}],
        "licenses": [{"expression": "MIT"}],
        "purl": purl,
    }
    direct = [each.purl for each in components if each.is_direct]
    identity = " ".join((digest, *(each.purl for each in components)))
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, identity)}",
        "version": 1,
        "metadata": {"component": product},
        "components": [_format_component(each) for each in components],
        "dependencies": [
            {"ref": purl, "dependsOn": direct},
            *({"ref": each.purl, "dependsOn": list(each.requires)} for each in components),
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _format_component(component: Component) -> dict[str, Any]:
    hashes = [{"alg": "SHA-512", "content": component.sha512}]
    return {
        "type": "library",
        "bom-ref": component.purl,
        "name": component.name,
        "version": component.version,
        # pip chooses one of several files of a Python package: constraints.txt has their hashes.
        **({"hashes": hashes} if component.sha512 else {}),
        "licenses": [_format_license(component.license)],
        "purl": component.purl,
    }


def _format_license(name: str) -> dict[str, Any]:
    try:
        return {"expression": str(canonicalize_license_expression(name))}
    except InvalidLicenseExpression:
        return {"license": {"name": name}}


def format_licenses(components: Sequence[Component]) -> str:
    return "\n".join(_list_license_lines(components)) + "\n"


def _list_license_lines(components: Sequence[Component]) -> Iterator[str]:
    yield f"# Licenses of the packages that Hedgerow {__version__} installs"
    for kind, where in (("pypi", "Python"), ("npm", "In the web console")):
        yield f"\n## {where}\n\n| Package | Version | License |\n|---|---|---|"
        for each in components:
            if each.purl.startswith(f"pkg:{kind}/"):
                yield f"| {each.name} | {each.version} | {each.license} |"
