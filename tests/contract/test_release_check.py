"""The checks of `make release-check`, except for those on git and on dist/."""

from pathlib import Path

import pytest
from tools import release_check

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


def test_a_file_of_a_release_without_its_checksum_is_named(tmp_path: Path) -> None:
    assert "run `make dist`" in next(release_check.check_dist(tmp_path, "1.2.3"))
