"""The checks of `make release-check`, except for those on git."""

from pathlib import Path
from zipfile import ZipFile

import pytest
from tools import release_check
from tools.dist import write_checksums

from hedgerow import __version__


def test_the_version_is_the_same_everywhere() -> None:
    assert list(release_check.check_version()) == []
    assert len(list(release_check.check_version(version="9.9.9"))) == 5


def test_the_changelog_has_a_section_for_the_version() -> None:
    text = (release_check.REPOSITORY / "CHANGELOG.md").read_text()
    assert f"\n## {__version__} - " in text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("## 1.2.3 - 2026-11-30\n\n## 1.2.2 - 2026-11-01\n", None),
        ("## Unreleased\n", "no section 1.2.3"),
        ("## 1.2.3 - unreleased\n", "has no date"),
        ("## Unreleased\n\n## 1.2.3 - 2026-11-30\n", "is above"),
    ],
)
def test_a_release_needs_a_dated_section_at_the_top(text: str, problem: str | None) -> None:
    found = list(release_check.check_changelog(text, "1.2.3"))
    assert len(found) == (problem is not None)
    assert problem is None or problem in found[0]


def test_an_unpinned_or_changed_migration_is_named(tmp_path: Path) -> None:
    assert list(release_check.check_migrations()) == []
    hashes = tmp_path / "hashes"
    hashes.write_text("00  src/0001_a.py\n")
    (tmp_path / "0001_a.py").write_text("")
    (tmp_path / "0002_b.py").write_text("")
    found = list(release_check.check_migrations(tmp_path, hashes))
    assert [each.split()[2] for each in found] == ["0001_a.py", "0002_b.py"]


CONSOLE = "hedgerow/http/console/static/index.html"
RELEASE = (
    *("hedgerow-1.2.3-py3-none-any.whl", "hedgerow_slim-1.2.3-py3-none-any.whl"),
    *("hedgerow-1.2.3.tar.gz", "hedgerow-1.2.3.cdx.json", "hedgerow-1.2.3-licenses.md"),
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name in (CONSOLE, "hedgerow/__init__.py", "hedgerow/a.py"):
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "src"


@pytest.fixture
def dist(tmp_path: Path, source: Path) -> Path:
    folder = tmp_path / "dist"
    folder.mkdir()
    for name in RELEASE:
        with ZipFile(folder / name, "w") as archive:
            for file in sorted(source.rglob("*.*")):
                archive.write(file, file.relative_to(source))
    write_checksums(folder)
    return folder


def rewrite_checksums(dist: Path) -> None:
    (dist / "SHA256SUMS").unlink()
    write_checksums(dist)


def check(dist: Path, source: Path) -> list[str]:
    return list(release_check.check_dist(dist, "1.2.3", source))


def test_each_file_of_a_release_is_there_with_its_checksum(dist: Path, source: Path) -> None:
    assert check(dist, source) == []
    (dist / "notes.txt").write_text("")
    with (dist / RELEASE[2]).open("ab") as file:
        file.write(b"x")
    assert check(dist, source) == [
        f"dist/{RELEASE[2]} does not match its checksum",
        "dist/notes.txt has no checksum",
    ]
    rewrite_checksums(dist)
    (dist / "notes.txt").unlink()
    assert check(dist, source) == ["dist/notes.txt is missing, but has a checksum"]
    for name in (RELEASE[1], RELEASE[3]):
        (dist / name).unlink()
    (dist / "SHA256SUMS").unlink()
    assert check(dist, source) == [
        f"dist/ lacks {RELEASE[1]}, {RELEASE[3]}, SHA256SUMS: run `make dist`"
    ]


def test_wheels_of_another_commit_are_named(dist: Path, source: Path) -> None:
    (source / "hedgerow/a.py").write_text("changed")
    (source / "hedgerow/new.py").write_text("")
    (source / CONSOLE).unlink()
    differ = "differs from the source in 3 file(s), such as hedgerow/a.py: run `make dist`"
    assert check(dist, source) == [f"dist/{name} {differ}" for name in RELEASE[:2]]


def test_wheels_without_the_console_are_named(dist: Path, source: Path) -> None:
    for name in RELEASE[:2]:
        with ZipFile(dist / name, "w") as archive:
            for path in ("hedgerow/__init__.py", "hedgerow/a.py"):
                archive.write(source / path, path)
    rewrite_checksums(dist)
    assert check(dist, source) == [f"dist/{name} has no web console" for name in RELEASE[:2]]
