"""Check everything that a release needs, and list what is missing.

    make release-check

Run it on the commit to be released, before its tag is pushed. It builds nothing: run `make dist`
first, and `make test`.
"""

import hashlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from zipfile import ZipFile

from hedgerow import __version__

REPOSITORY = Path(__file__).parents[1]
DIST = REPOSITORY / "dist"
MIGRATIONS = REPOSITORY / "src/hedgerow/storage/migrations/versions"
MIGRATION_HASHES = REPOSITORY / "tests/contract/storage/engine/migrations.sha256"
# Files that name the version, besides hedgerow/__init__.py.
NAMING_VERSION = (
    "deploy/Dockerfile",
    "deploy/compose.yaml",
    "deploy/kubernetes/hedgerow.yaml",
    "deploy/kubernetes/migrate.yaml",
    "docs/guides/deploy.md",
)
_NAMED_VERSION = re.compile(
    r"hedgerow(?:_slim|-init)?[:-](\d+\.\d+\.\d+)|^hedgerow (\d+\.\d+\.\d+)$", re.M
)

CHECKSUMS = "SHA256SUMS"

Problems = Iterator[str]


def check_version(folder: Path = REPOSITORY, version: str = __version__) -> Problems:
    for name in NAMING_VERSION:
        text = (folder / name).read_text()
        found = {first or second for first, second in _NAMED_VERSION.findall(text)}
        if found != {version}:
            yield f"{name} names {', '.join(sorted(found)) or 'no version'} instead of {version}"


def check_changelog(text: str, version: str = __version__) -> Problems:
    sections = re.findall(r"^## (.+)$", text, re.M)
    heading = next((each for each in sections if each.startswith(f"{version} ")), None)
    if heading is None:
        yield f"CHANGELOG.md has no section {version}"
    elif not re.fullmatch(rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d", heading):
        yield f"CHANGELOG.md: the section {heading!r} has no date, such as `{version} - 2026-01-31`"
    elif sections[0] != heading:
        yield f"CHANGELOG.md: {sections[0]!r} is above the section of this release"


def check_migrations(folder: Path = MIGRATIONS, hashes: Path = MIGRATION_HASHES) -> Problems:
    pinned = {
        Path(line.split()[1]).name: line.split()[0]
        for line in hashes.read_text().split("\n")
        if line
    }
    actual = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.glob("0*.py")
    }
    for name in sorted(pinned.keys() | actual.keys()):
        if pinned.get(name) != actual.get(name):
            yield f"the migration {name} is not pinned, or was changed"


def check_docs() -> Problems:
    command = [sys.executable, "-m", "pytest", "-q", "tests/contract/test_docs.py"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)  # noqa: S603 - pytest
    if done.returncode:
        yield f"tests/contract/test_docs.py fails: {done.stdout.strip().splitlines()[-1]}"


def check_dist(
    folder: Path = DIST, version: str = __version__, source: Path = REPOSITORY / "src"
) -> Problems:
    wheels = [f"{name}-{version}-py3-none-any.whl" for name in ("hedgerow", "hedgerow_slim")]
    others = [f"hedgerow-{version}{end}" for end in (".tar.gz", ".cdx.json", "-licenses.md")]
    missing = [name for name in (*wheels, *others, CHECKSUMS) if not (folder / name).is_file()]
    if missing:
        yield f"dist/ lacks {', '.join(missing)}: run `make dist`"
        return
    for name in wheels:
        yield from _check_wheel(folder / name, source)
    yield from _check_checksums(folder)


def _check_wheel(wheel: Path, source: Path) -> Problems:
    """A wheel must have the files of this commit, and the built console."""
    with ZipFile(wheel) as archive:
        names = [each for each in archive.namelist() if each.startswith("hedgerow/")]
        packed = {name: archive.read(name) for name in names}
    if "hedgerow/http/console/static/index.html" not in packed:
        yield f"dist/{wheel.name} has no web console"
    code = {str(each.relative_to(source)) for each in source.rglob("hedgerow/**/*.py")}
    stale = sorted(
        name
        for name in code | packed.keys()
        if not (source / name).is_file() or packed.get(name) != (source / name).read_bytes()
    )
    if stale:
        yield (
            f"dist/{wheel.name} differs from the source in {len(stale)} file(s), such as "
            f"{stale[0]}: run `make dist`"
        )


def _check_checksums(folder: Path) -> Problems:
    lines = [line.split() for line in (folder / CHECKSUMS).read_text().splitlines()]
    listed = {name: digest for digest, name in lines}
    files = {each.name for each in folder.iterdir()} - {CHECKSUMS}
    for name in sorted(files | listed.keys()):
        if name not in listed:
            yield f"dist/{name} has no checksum"
        elif name not in files:
            yield f"dist/{name} is missing, but has a checksum"
        elif hashlib.sha256((folder / name).read_bytes()).hexdigest() != listed[name]:
            yield f"dist/{name} does not match its checksum"


def check_tree() -> Problems:
    if changed := run_git("status", "--porcelain"):
        yield f"{len(changed.splitlines())} file(s) are not committed"


def check_tag(version: str = __version__) -> Problems:
    tag = f"v{version}"
    tagged = run_git("tag", "--list", tag) and run_git("rev-list", "--max-count=1", tag)
    if not tagged:
        yield f"the tag is missing: `git tag --annotate {tag}`"
    elif tagged != run_git("rev-parse", "HEAD"):
        yield f"the tag {tag} is on another commit: choose the next version"


def run_git(*arguments: str) -> str:
    command = ("git", *arguments)
    return subprocess.run(  # noqa: S603 - git
        command, cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.strip()


CHECKS: dict[str, Callable[[], Problems]] = {
    "version in one place": check_version,
    "changelog section": lambda: check_changelog((REPOSITORY / "CHANGELOG.md").read_text()),
    "migrations pinned": check_migrations,
    "documentation": check_docs,
    "files in dist/": check_dist,
    "clean tree": check_tree,
    "tag": check_tag,
}


def main() -> None:
    has_failed = False
    for name, check in CHECKS.items():
        problems = list(check())
        has_failed |= bool(problems)
        print(f"{'FAIL' if problems else 'ok  '}  {name}")
        for problem in problems:
            print(f"      {problem}")
    sys.exit(has_failed)


if __name__ == "__main__":
    main()
