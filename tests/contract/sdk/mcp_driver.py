"""Run by test_mcp with the official MCP package: call tools, over HTTP or through `hedgerow mcp`.

Reads a JSON object from standard input: `url` and `key`, or `command`, and `calls` as pairs of tool
and arguments. Writes a JSON object with the names of the tools and the results.
"""

import asyncio
import json
import sys
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client


def connect(task: dict[str, Any]) -> Client:
    mode = task.get("mode", "auto")
    if "command" in task:
        first, *others = task["command"]
        parameters = StdioServerParameters(command=first, args=others, env=task["environment"])
        return Client(parameters, mode=mode)
    http = create_mcp_http_client(headers={"Authorization": f"Bearer {task['key']}"})
    return Client(streamable_http_client(task["url"], http_client=http), mode=mode)


async def run(task: dict[str, Any]) -> dict[str, Any]:
    async with connect(task) as client:
        version = client.protocol_version
        tools = await client.list_tools()
        results = [await client.call_tool(name, given) for name, given in task["calls"]]
    return {
        "version": version,
        "tools": [tool.name for tool in tools.tools],
        "results": [
            {
                "is_error": bool(result.is_error),
                "text": result.content[0].text,
                "data": result.structured_content,
            }
            for result in results
        ],
    }


json.dump(asyncio.run(run(json.load(sys.stdin))), sys.stdout)
