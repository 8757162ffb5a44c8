"""The HTTP server: listening socket and uvicorn configuration."""

import socket

import uvicorn

from hedgerow.errors import OperatorError
from hedgerow.http.server.gateway import Gateway
from hedgerow.http.server.uvicorn_protocol import BoundedProtocol
from hedgerow.http.server.uvicorn_server import InternalListener, Server

BACKLOG = 2048
KEEP_ALIVE_TIMEOUT_S = 65


def listen(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """Return a listening socket. Connections are spread over all shared ones of an address. Raises
    OperatorError if the address cannot be used."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        raise OperatorError(
            f"Cannot listen on {host}:{port}: {error.strerror or error}. "
            "Choose another port with --port or HEDGEROW_PORT."
        ) from None
    return listening


def listen_several(host: str, port: int, count: int) -> list[socket.socket]:
    """Return so many listening sockets of one address. Raises OperatorError if another program has
    the address."""
    if port:
        listen(host, port).close()
    first = listen(host, port, is_shared=True)
    own_port = first.getsockname()[1]
    return [first, *(listen(host, own_port, is_shared=True) for _ in range(count - 1))]


def display_url(listening: socket.socket) -> str:
    """Return a URL that works in a browser on this machine."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{host}:{port}"


def build_server(
    gateway: Gateway,
    *,
    header_timeout_s: float,
    drain_s: float,
    grace_s: float,
    internal: InternalListener | None = None,
    is_replacement: bool = False,
) -> Server:
    protocol = type(
        "Protocol",
        (BoundedProtocol,),
        {
            "header_timeout_s": header_timeout_s,
            "find_queue": staticmethod(gateway.find_queue),
            "open_connections": gateway.open_connections,
            "queues": gateway.queues,
            "senders": gateway.senders,
            "draining": gateway.readiness.draining,
        },
    )
    config = uvicorn.Config(
        gateway,
        interface="asgi3",
        http=protocol,
        loop="none",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=[("x-content-type-options", "nosniff")],
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_TIMEOUT_S,
    )
    # The annotation is int, but uvicorn passes the value to asyncio.wait_for unchanged.
    config.timeout_graceful_shutdown = grace_s  # type: ignore[assignment]
    return Server(
        config,
        stopping=gateway.stopping,
        readiness=gateway.readiness,
        drain_s=drain_s,
        max_connections=gateway.open_connections.limit,
        internal=internal,
        is_replacement=is_replacement,
    )
