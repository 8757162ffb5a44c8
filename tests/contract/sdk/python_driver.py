"""Executes commands with posthog-python, one JSON line each, in its own process, with the version
of the package that is first on its path.
"""

import json
import logging
import sys
import warnings
from typing import Any

import posthog as package

posthog: Any = package
client: Any = None
clients: dict[str, Any] = {}
errors: list[str] = []
logged: list[str] = []


def open_client(
    host: str,
    token: str,
    secret: str | None,
    retries: int = 2,
    poll_s: float = 3600,
    timeout_s: float = 15,
    name: str = "",
) -> str:
    settings: dict[str, Any] = {
        "project_api_key": token,
        "host": host,
        "personal_api_key": secret,
        "flush_at": 5,
        "flush_interval": 0.05,
        "max_retries": retries,
        "poll_interval": poll_s,
        "timeout": timeout_s,
        "feature_flags_request_timeout_seconds": timeout_s,
        "on_error": lambda error, _: errors.append(str(error)),
    }
    clients[name] = posthog.Posthog(**settings)
    use(name)
    return str(posthog.VERSION)


def use(name: str) -> None:
    """Select the client for the following commands."""
    global client
    client = clients[name]


def capture(id: str, event: str, properties: Any, groups: Any = None) -> None:
    client.capture(distinct_id=id, event=event, properties=properties, groups=groups)


def capture_ai(id: str, event: str, properties: Any) -> None:
    client.capture_ai(distinct_id=id, event=event, properties=properties)


def identify(id: str, properties: Any) -> None:
    set_properties = getattr(client, "identify", client.set)  # newer versions have no identify
    set_properties(distinct_id=id, properties=properties)


def alias(previous: str, id: str) -> None:
    client.alias(previous_id=previous, distinct_id=id)


def group(type: str, key: str, properties: Any) -> None:
    client.group_identify(type, key, properties)


def flag(key: str, id: str, local: bool = False, **options: Any) -> Any:
    return client.get_feature_flag(key, id, only_evaluate_locally=local, **_build_options(options))


def payload(key: str, id: str, **options: Any) -> Any:
    return client.get_feature_flag_payload(key, id, **_build_options(options))


def all_flags(id: str, local: bool = False, **options: Any) -> Any:
    response = client.get_all_flags_and_payloads(
        id, only_evaluate_locally=local, **_build_options(options)
    )
    return [response["featureFlags"], response["featureFlagPayloads"]]


def evaluate_flags(id: str, **options: Any) -> Any:
    flags = client.evaluate_flags(id, **_build_options(options))
    return {key: [flags.get_flag(key), flags.get_flag_payload(key)] for key in flags.keys}


def _build_options(options: dict[str, Any]) -> dict[str, Any]:
    names = {
        "person": "person_properties",
        "groups": "groups",
        "group_properties": "group_properties",
    }
    return {names[name]: value for name, value in options.items()}


def remote_config(key: str) -> Any:
    return client.get_remote_config_payload(key)


def reload() -> None:
    client.load_feature_flags()


def flush() -> list[str]:
    # The current version waits 10 s by default, the old one until everything is sent.
    timeout = {} if posthog.VERSION.startswith("3.") else {"timeout_seconds": 60}
    client.flush(**timeout)
    return errors


def warned() -> list[str]:
    """Return the warnings that the SDK logged."""
    return logged


class LogCollector(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        logged.append(record.getMessage())


def close() -> None:
    client.shutdown()


def main() -> None:
    warnings.simplefilter("ignore")
    logger = logging.getLogger("posthog")
    logger.propagate = False
    logger.addHandler(LogCollector(logging.WARNING))
    actions: dict[str, Any] = {
        command.__name__: command
        for command in (
            use,
            capture,
            capture_ai,
            identify,
            alias,
            group,
            flag,
            payload,
            all_flags,
            evaluate_flags,
        )
    } | {
        "open": open_client,
        "remote_config": remote_config,
        "reload": reload,
        "flush": flush,
        "warned": warned,
        "close": close,
    }
    output = sys.stdout
    for line in sys.stdin:
        name, arguments = json.loads(line)
        output.write(json.dumps(actions[name](**arguments)) + "\n")
        output.flush()


if __name__ == "__main__":
    main()
