"""Commands that call an address at which no Hedgerow answers, or a proxy before one."""

import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from subprocess import CompletedProcess
from threading import Thread

import pytest

from tests.support.certificates import write_certificate
from tests.support.live import PERSONAL_KEY, run_in_process
from tests.support.receiver import PlannedResponse, Receiver

COMMANDS = (("flags", "list"), ("projects", "list"), ("flags", "create", "x"))


def run(url: str, *arguments: str) -> CompletedProcess[str]:
    return run_in_process(*arguments, server_url=url, personal_key=PERSONAL_KEY)


@pytest.mark.parametrize("command", [*COMMANDS, ("keys", "list"), ("projects", "create", "x")])
def test_a_redirect_is_not_followed(command: tuple[str, ...]) -> None:
    with Receiver() as other:
        to = PlannedResponse(status=301, headers={"location": f"http://127.0.0.1:{other.port}/a/"})
        with Receiver(lambda _: to) as proxy:
            done = run(f"http://127.0.0.1:{proxy.port}", *command)
        assert other.received == []
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"hedgerow: http://127.0.0.1:{proxy.port} redirects to http://127.0.0.1:{other.port}/a/. "
        "If it is your service, use that URL.\n"
    )


def test_a_redirect_to_https_names_the_url_of_the_service() -> None:
    with Receiver() as proxy:
        proxy.decide = lambda request: PlannedResponse(
            status=308, headers={"location": f"https://flags.example.com{request.path}"}
        )
        done = run(f"http://127.0.0.1:{proxy.port}", "login", f"http://127.0.0.1:{proxy.port}")
    assert "redirects to https://flags.example.com. If" in done.stderr


@pytest.mark.parametrize("body", [b"<html>", b"\xff", b"{}", b"[1]", b"null", b"5", b""])
@pytest.mark.parametrize("command", [*COMMANDS, ("login",), ("keys", "list")])
def test_an_answer_of_another_service_is_named(command: tuple[str, ...], body: bytes) -> None:
    with Receiver(lambda _: PlannedResponse(body=body)) as other:
        url = f"http://127.0.0.1:{other.port}"
        done = run(url, *command, *((url,) if command == ("login",) else ()))
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith(f"hedgerow: {url} answers ")
    assert done.stderr.endswith(", which is not an answer of Hedgerow. Check --server.\n")


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(write_certificate(tmp_path))
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_unknown_certificate_says_how_to_trust_it(
    tls_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(f"https://{tls_server}", "flags", "list")
    assert done.returncode == 5
    assert f"The certificate of https://{tls_server} is not trusted: self-signed" in done.stderr
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
    trusted = run(f"https://{tls_server}", "flags", "list")
    assert "answers 501 " in trusted.stderr


def test_https_for_a_service_without_it_is_named() -> None:
    with Receiver() as service:
        done = run(f"https://127.0.0.1:{service.port}", "flags", "list")
    assert (done.returncode, "does not speak TLS" in done.stderr) == (5, True)


@pytest.mark.parametrize(
    "url", ["flags.example.com", "127.0.0.1:8000", "ftp://127.0.0.1", "file:///etc", "http://a?b"]
)
def test_an_address_that_is_no_url_is_refused(url: str) -> None:
    done = run_in_process("login", url, personal_key=PERSONAL_KEY)
    listed = run_in_process("flags", "list", "--server", url, "--key", PERSONAL_KEY)
    for each in (done, listed):
        assert each.returncode == 1
        assert each.stderr.startswith("hedgerow: The value given for HEDGEROW_SERVER_URL must be ")
        assert f"such as https://flags.example.com, or an empty value, not {url!r}." in each.stderr


@pytest.mark.parametrize("key", ["phc_0123456789abcdef", "ключ", "phx_ключ-0123456789ab"])
def test_a_key_that_is_no_personal_key_is_not_sent(key: str) -> None:
    with Receiver() as service:
        url = f"http://127.0.0.1:{service.port}"
        done = run_in_process("flags", "list", "--server", url, "--key", key)
        assert service.received == []
    assert (done.returncode, "must be phx_ and at least 16 more" in done.stderr) == (1, True)
    assert key not in done.stderr
