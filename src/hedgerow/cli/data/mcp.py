"""`hedgerow mcp`: the tools of an assistant over standard input and output."""

import json
import sys
from typing import Any

from hedgerow.cli.options import KeyOption, ServerOption
from hedgerow.cli.service_client import ServiceClient, connect_service
from hedgerow.errors import Invalid, OperatorError

PATH = "/mcp"
PARSE_ERROR = -32700
SERVICE_ERROR = -32000


def serve_assistant(server: ServerOption = None, key: KeyOption = None) -> None:
    """Answer an assistant with the Model Context Protocol.

    For assistants that start a command and use its standard input and output. Messages are
    forwarded to the service with your personal API key.

    Example: hedgerow mcp --server https://flags.example.com --key phx_…
    """
    service = connect_service(server, key, None, "feature_flag:read")
    for line in sys.stdin:
        if line.strip() and (answer := _forward(service, line)) is not None:
            print(json.dumps(answer), flush=True)


def _forward(service: ServiceClient, line: str) -> Any:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return _build_error(None, PARSE_ERROR, "The line is not a JSON value.")
    try:
        return service.request_root("POST", PATH, message)
    except (OperatorError, Invalid) as error:
        id = message.get("id") if isinstance(message, dict) else None
        return None if id is None else _build_error(id, SERVICE_ERROR, str(error))


def _build_error(id: Any, code: int, text: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}
