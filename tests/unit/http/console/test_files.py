from pathlib import Path

import pytest

from hedgerow.http.console.console import select_encoding
from hedgerow.http.console.files import ConsoleFile, read_files
from hedgerow.http.server.headers import read_encodings

SCRIPT = ConsoleFile(
    media_type="text/javascript", content=b"plain", compressed={"br": b"b", "gzip": b"g"}
)


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        ("gzip, deflate, br", "br"),
        ("gzip", "gzip"),
        ("br;q=0, gzip;q=0.5", "gzip"),
        ("br; q=0.0 , gzip ;q=0", ""),
        ("GZIP", "gzip"),
        ("identity", ""),
        ("", ""),
        ("brotli", ""),
    ],
)
def test_best_encoding_that_the_client_accepts(accepted: str, expected: str) -> None:
    scope = {"headers": [(b"accept-encoding", accepted.encode())]}
    assert select_encoding(SCRIPT, read_encodings(scope)) == expected


def test_built_files_have_their_compressed_forms(tmp_path: Path) -> None:
    for name in ("index.html", "app-1.js", "app-1.js.br", "app-1.js.gz", "app-2.css"):
        (tmp_path / name).write_text(name)
    built = read_files(tmp_path)
    assert built.shell == "index.html"
    assert built.files.keys() == {"app-1.js", "app-2.css"}
    assert built.files["app-1.js"].compressed == {"br": b"app-1.js.br", "gzip": b"app-1.js.gz"}
    assert built.files["app-2.css"].media_type == "text/css"
    assert built.files["app-2.css"].compressed == {}


def test_missing_build_has_no_shell(tmp_path: Path) -> None:
    built = read_files(tmp_path / "missing")
    assert built.shell is None
    assert built.files == {}
