"""The client of an edge process, against servers that fail."""

import asyncio
import ssl
from pathlib import Path

import pytest

from hedgerow.outbound import origin_client
from hedgerow.outbound.origin_client import OriginClient, OriginUnreachable
from tests.support.certificates import write_certificate


async def _fetch_error(scheme: str, context: ssl.SSLContext | None = None) -> str:
    """Return why a document cannot be fetched from a server that accepts and never answers."""

    async def wait(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await is_over.wait()
        writer.close()

    is_over = asyncio.Event()
    server = await asyncio.start_server(wait, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    client = OriginClient(f"{scheme}://127.0.0.1:{port}", "test")
    try:
        with pytest.raises(OriginUnreachable) as raised:
            await client.fetch("/", "phs_key", "")
        return str(raised.value)
    finally:
        await client.close()
        is_over.set()
        server.close()
        await asyncio.sleep(0.05)


def test_invalid_certificate_is_named(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(write_certificate(tmp_path))
    reason = asyncio.run(_fetch_error("https", context))
    assert reason.startswith("its certificate is not valid: self-signed certificate. ")
    assert "SSL_CERT_FILE" in reason


def test_origin_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origin_client, "FETCH_SILENCE_S", 0.1)
    assert asyncio.run(_fetch_error("http")) == "no answer in time"
