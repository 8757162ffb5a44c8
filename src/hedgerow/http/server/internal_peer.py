"""The client of a request that another process of this machine passes on.

Requests of clients carry this header on the internal connection, and only there is it read.
"""

from starlette.types import Scope

HEADER = b"x-hedgerow-peer"


def describe_peer(scope: Scope) -> str:
    """Return the addresses of the client and of the server, as the client sees them."""
    client, server = scope.get("client") or ("", 0), scope.get("server") or ("", 0)
    return f"{client[0]} {client[1]} {server[0]} {server[1]}"


def restore_peer(scope: Scope) -> Scope | None:
    """Return the request as the other process got it, None if it is the process's own."""
    value = next((value for name, value in scope["headers"] if name == HEADER), None)
    if value is None:
        return None
    client, client_port, server, server_port = value.decode("latin-1").split(" ")
    return {
        **scope,
        "client": (client, int(client_port)) if client else None,
        "server": (server, int(server_port)) if server else None,
        "headers": [each for each in scope["headers"] if each[0] != HEADER],
    }
