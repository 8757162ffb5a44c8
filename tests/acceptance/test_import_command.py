"""`hedgerow import FILE` imports files, unless the first word is a command."""

from pathlib import Path

import pytest

from tests.support.live import run_in_process

ROW = '{"event": "seen", "distinct_id": "ann"}\n'


@pytest.mark.parametrize(
    "words",
    [
        ("orders.jsonl",),
        ("--format", "jsonl", "orders.jsonl"),
        ("files", "orders.jsonl"),
        ("./posthog", "--format", "jsonl"),
        ("files", "posthog", "-f", "jsonl"),
    ],
)
def test_files_need_no_command(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("orders.jsonl", "posthog"):
        (tmp_path / name).write_text(ROW)
    done = run_in_process("import", *words, "--dry-run")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 row(s) can be sent, 0 bad.")


def test_a_command_is_not_taken_for_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "posthog").write_text(ROW)
    done = run_in_process("import", "posthog", "--dry-run")
    assert (done.returncode, "Missing option '--host'" in done.stderr) == (2, True)
