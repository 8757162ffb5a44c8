"""A release: its wheels, its lists of packages, and an installation in an empty environment."""

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
from email.parser import HeaderParser
from pathlib import Path
from urllib.error import HTTPError
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from tools.dist import CONSOLE_PAGE, EXTRAS_WITH_MORE, read_project, split_requirements
from tools.try_wheel import install, measure_disk_mb, query_events, run_service
from tools.try_wheel import use_flags_and_capture as use_service

from hedgerow import __version__

REPOSITORY = Path(__file__).parents[2]
FULL = f"hedgerow-{__version__}-py3-none-any.whl"
SLIM = f"hedgerow_slim-{__version__}-py3-none-any.whl"
# Packages that only extras of the slim wheel install.
LARGE = ("chdb", "clickhouse_connect", "numpy", "pandas", "psycopg", "pyarrow", "scipy")
SLIM_LIMIT_MB = 150


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
    names = [each["name"] for each in sbom["components"]]
    licenses = (dist / f"hedgerow-{__version__}-licenses.md").read_text()
    assert {"chdb-core", "starlette", "pandas"} <= set(names)
    assert all(f"| {name} |" in licenses for name in names)
    assert len(set(names)) == len(names) == licenses.count("\n| ") - 1


def test_source_has_what_a_build_needs_and_nothing_built_elsewhere(dist: Path) -> None:
    with tarfile.open(dist / f"hedgerow-{__version__}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "console/package.json", "tools/dist.py"} <= names
    assert not any("node_modules" in name or "__pycache__" in name for name in names)


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
    assert "all" in slim_metadata["Provides-Extra"]
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


def can_download(folder: Path) -> bool:
    command = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--dest"]
    return subprocess.run([*command, str(folder), "idna"], check=False, timeout=120).returncode == 0


def test_slim_wheel_runs_flags_and_capture_in_an_empty_environment(
    dist: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "venv"
    try:
        programs = install(str(dist / SLIM), folder)
    except subprocess.CalledProcessError:
        if can_download(tmp_path):
            raise
        pytest.skip("pip cannot download packages here: no network and no cache")
    packages = next(folder.glob("lib/python*/site-packages"))
    assert [name for name in LARGE if (packages / name).exists()] == []
    assert measure_disk_mb(folder) < SLIM_LIMIT_MB
    with run_service(programs, tmp_path / "data") as service:
        use_service(service)
        with pytest.raises(HTTPError) as refused:
            query_events(service)
        with refused.value:
            assert refused.value.code == 503
    url = "postgresql://hedgerow@127.0.0.1:1/hedgerow"
    done = subprocess.run(
        [programs / "hedgerow", "serve", "--port", "0"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HEDGEROW_DATABASE_URL": url},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    assert "pip install 'hedgerow-slim[postgresql]'" in done.stderr
    shutil.rmtree(folder)
