"""A release: its wheels, its lists of packages, and an installation in an empty environment."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from email.parser import HeaderParser
from pathlib import Path
from urllib.error import HTTPError
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from tools.dist import CONSOLE_PAGE, EXTRAS_WITH_MORE, read_project, split_requirements
from tools.try_wheel import (
    RunningService,
    create_flag,
    evaluate_and_capture,
    install,
    install_into,
    measure_disk_mb,
    query_events,
    rotate_secret,
    run_edge,
    run_service,
    use_flags_and_capture,
)

from hedgerow import __version__
from hedgerow.lib.optional_packages import EXTRAS

REPOSITORY = Path(__file__).parents[2]
FULL = f"hedgerow-{__version__}-py3-none-any.whl"
SLIM = f"hedgerow_slim-{__version__}-py3-none-any.whl"
# What an edge process may use of the disk with all that pip installs and compiles: 150 MB with the
# 26 MB of pip.
EDGE_LIMIT_MB = 124
EDGE_RESIDENT_LIMIT_MB = 100
PURL = r"pkg:(pypi/[a-z0-9-]+|npm/(%40[a-z0-9-]+/)?[a-z0-9-]+)@[0-9][0-9a-z.]*"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "dist"
    without = [] if CONSOLE_PAGE.is_file() else ["--without-console"]
    subprocess.run(
        [sys.executable, "-m", "tools.dist", "--output", folder, *without],
        cwd=REPOSITORY,
        check=True,
    )
    return folder


def read_metadata(wheel: Path) -> dict[str, list[str]]:
    with ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        headers = HeaderParser().parsestr(archive.read(name).decode())
    return {key: headers.get_all(key) or [] for key in headers}


def test_checksums_match_every_file(dist: Path) -> None:
    lines = [line.split() for line in (dist / "SHA256SUMS").read_text().splitlines()]
    assert {name for _, name in lines} == {each.name for each in dist.iterdir()} - {"SHA256SUMS"}
    for digest, name in lines:
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest


def test_sbom_and_licenses_name_all_packages(dist: Path) -> None:
    sbom = json.loads((dist / f"hedgerow-{__version__}.cdx.json").read_text())
    components = sbom["components"]
    names = [each["name"] for each in components]
    licenses = (dist / f"hedgerow-{__version__}-licenses.md").read_text()
    assert {"chdb-core", "starlette", "pandas", "preact", "@codemirror/view"} <= set(names)
    assert not {"vite", "typescript", "pytest"} & set(names)
    assert all(f"| {name} |" in licenses for name in names)
    assert len(set(names)) == len(names) == licenses.count("\n| ") - 2
    assert all(each["version"] and each["licenses"] and each["purl"] for each in components)
    assert all(re.fullmatch(PURL, each["purl"]) for each in components)


def test_sbom_says_which_package_requires_which(dist: Path) -> None:
    sbom = json.loads((dist / f"hedgerow-{__version__}.cdx.json").read_text())
    product = sbom["metadata"]["component"]
    digest = hashlib.sha256((dist / FULL).read_bytes()).hexdigest()
    assert product["hashes"] == [{"alg": "SHA-256", "content": digest}]
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", sbom["serialNumber"])
    refs = {each["bom-ref"] for each in (product, *sbom["components"])}
    required = {each["ref"]: each["dependsOn"] for each in sbom["dependencies"]}
    assert required.keys() == refs
    reached, waiting = set[str](), [product["bom-ref"]]
    while waiting:
        ref = waiting.pop()
        if ref not in reached:
            reached.add(ref)
            waiting += required[ref]
    assert reached == refs


def test_source_has_what_a_build_needs_and_nothing_built_elsewhere(dist: Path) -> None:
    with tarfile.open(dist / f"hedgerow-{__version__}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "console/package.json", "tools/dist.py"} <= names
    not_ignored = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    git = subprocess.run(not_ignored, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    built = {name for name in names if name.startswith("src/hedgerow/http/console/static/")}
    assert names - built - set(git.stdout.splitlines()) == {"PKG-INFO"}


def test_wheels_differ_in_requirements_only(dist: Path) -> None:
    with ZipFile(dist / FULL) as full, ZipFile(dist / SLIM) as slim:
        files, slim_files = (
            {
                each.filename: each.CRC
                for each in wheel.infolist()
                if "dist-info" not in each.filename
            }
            for wheel in (full, slim)
        )
    assert files == slim_files
    assert ("hedgerow/http/console/static/index.html" in files) == CONSOLE_PAGE.is_file()
    full_metadata, slim_metadata = read_metadata(dist / FULL), read_metadata(dist / SLIM)
    assert slim_metadata["Name"] == ["hedgerow-slim"]
    assert slim_metadata["Version"] == full_metadata["Version"] == [__version__]
    assert {"all", *EXTRAS.values(), "geoip"} == set(slim_metadata["Provides-Extra"])
    assert set(slim_metadata["Provides-Extra"]) - {"all"} < set(full_metadata["Provides-Extra"])
    full_requirements, slim_requirements = (
        {each for each in map(Requirement, found["Requires-Dist"]) if each.marker is None}
        for found in (full_metadata, slim_metadata)
    )
    assert slim_requirements < full_requirements


def test_every_part_is_in_the_default_installation() -> None:
    project = read_project()
    for name, requirements in project["optional-dependencies"].items():
        if name not in EXTRAS_WITH_MORE:
            assert set(requirements) <= set(project["dependencies"])
    split = split_requirements(project)
    assert sorted({*split[""], *split["all"]}) == sorted(project["dependencies"])


def test_component_packages_install_beside_either_wheel() -> None:
    """One that required `hedgerow` could not be installed beside hedgerow-slim, or would add the
    other wheel to it."""
    files = [*REPOSITORY.glob("packages/*/pyproject.toml")]
    files += REPOSITORY.glob("examples/*/pyproject.toml")
    assert len(files) == 5
    for file in files:
        required = tomllib.loads(file.read_text())["project"]["dependencies"]
        assert not {Requirement(each).name for each in required} & {"hedgerow", "hedgerow-slim"}


def can_download(folder: Path) -> bool:
    command = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--dest"]
    return subprocess.run([*command, str(folder), "idna"], check=False, timeout=120).returncode == 0


def install_or_skip(wheel: str, folder: Path) -> Path:
    try:
        return install(wheel, folder)
    except subprocess.CalledProcessError:
        if can_download(folder.parent):
            raise
        pytest.skip("pip cannot download packages here: no network and no cache")


@pytest.fixture(scope="module")
def slim(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An environment with the slim wheel. The last test adds its service to it."""
    folder = tmp_path_factory.mktemp("slim") / "venv"
    install_or_skip(str(dist / SLIM), folder)
    yield folder
    shutil.rmtree(folder)


def run_failing(programs: Path, folder: Path, *arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [programs / "hedgerow", *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    return done.stderr


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service of this environment."""
    data = tmp_path_factory.mktemp("origin") / "data"
    with run_service(Path(sys.executable).parent, data) as service:
        yield service


def test_slim_wheel_runs_an_edge_process_in_124_mb(
    slim: Path, origin: RunningService, tmp_path: Path
) -> None:
    programs = slim / "bin"
    assert any(slim.glob("lib/python*/site-packages/hedgerow/**/*.pyc"))
    packages = next(slim.glob("lib/python*/site-packages"))
    assert [each for each in EXTRAS if (packages / each).exists()] == []
    assert measure_disk_mb(slim) < EDGE_LIMIT_MB
    create_flag(origin)
    with run_edge(programs, origin.url, rotate_secret(origin), tmp_path / "edge") as edge:
        beside = replace(origin, url=edge.url, process=edge.process)
        evaluate_and_capture(beside)
        assert sum(beside.measure_resident_mb().values()) < EDGE_RESIDENT_LIMIT_MB
    assert query_events(origin) == 1
    login = {"HEDGEROW_SERVER_URL": origin.url, "HEDGEROW_PERSONAL_KEY": origin.personal_key}
    listed = subprocess.run(
        [programs / "hedgerow", "flags", "list"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **login},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "new-cart" in listed.stdout
    for command in (["serve", "--port", "0"], ["doctor"], ["keys", "list"]):
        said = run_failing(programs, tmp_path, *command)
        assert said.startswith("hedgerow: The Python package ")
        assert "pip install 'hedgerow-slim[server]'" in said


def test_slim_wheel_with_its_server_runs_flags_and_capture(
    dist: Path, slim: Path, tmp_path: Path
) -> None:
    programs = slim / "bin"
    # The service compiles the few modules that it needs.
    install_into(slim, f"{dist / SLIM}[server]", "--no-compile")
    packages = next(slim.glob("lib/python*/site-packages"))
    others = (name for name, extra in EXTRAS.items() if extra != "server")
    assert [name for name in others if (packages / name).exists()] == []
    with run_service(programs, tmp_path / "data") as service:
        use_flags_and_capture(service)
        with pytest.raises(HTTPError) as refused:
            query_events(service)
        with refused.value:
            assert refused.value.code == 503
    url = "postgresql://hedgerow@127.0.0.1:1/hedgerow"
    said = run_failing(programs, tmp_path, "serve", "--port", "0", HEDGEROW_DATABASE_URL=url)
    assert "pip install 'hedgerow-slim[postgresql]'" in said
