"""Does with posthog-python what it is told, a line of JSON at a time. Runs as a process of its own,
with whichever version of the package is first on its path.
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
    """All that follows is for this one of the clients that are open."""
    global client
    client = clients[name]


def capture(id: str, event: str, properties: Any, groups: Any = None) -> None:
    client.capture(distinct_id=id, event=event, properties=properties, groups=groups)


def capture_ai(id: str, event: str, properties: Any) -> None:
    client.capture_ai(distinct_id=id, event=event, properties=properties)


def identify(id: str, properties: Any) -> None:
    known = getattr(client, "identify", client.set)  # the newer ones have no identify
    known(distinct_id=id, properties=properties)


def alias(before: str, id: str) -> None:
    client.alias(previous_id=before, distinct_id=id)


def group(type: str, key: str, properties: Any) -> None:
    client.group_identify(type, key, properties)


def flag(key: str, id: str, local: bool = False, **known: Any) -> Any:
    return client.get_feature_flag(key, id, only_evaluate_locally=local, **_known(known))


def payload(key: str, id: str, **known: Any) -> Any:
    return client.get_feature_flag_payload(key, id, **_known(known))


def everything(id: str, local: bool = False, **known: Any) -> Any:
    found = client.get_all_flags_and_payloads(id, only_evaluate_locally=local, **_known(known))
    return [found["featureFlags"], found["featureFlagPayloads"]]


def evaluated(id: str, **known: Any) -> Any:
    flags = client.evaluate_flags(id, **_known(known))
    return {key: [flags.get_flag(key), flags.get_flag_payload(key)] for key in flags.keys}


def _known(known: dict[str, Any]) -> dict[str, Any]:
    names = {
        "person": "person_properties",
        "groups": "groups",
        "group_properties": "group_properties",
    }
    return {names[name]: value for name, value in known.items()}


def remote_config(key: str) -> Any:
    return client.get_remote_config_payload(key)


def reload() -> None:
    client.load_feature_flags()


def flush() -> list[str]:
    # Today's waits for 10 s unless told, the one of old until all is sent.
    patience = {} if posthog.VERSION.startswith("3.") else {"timeout_seconds": 60}
    client.flush(**patience)
    return errors


def close() -> None:
    client.shutdown()


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    actions: dict[str, Any] = {
        each.__name__: each
        for each in (
            use,
            capture,
            capture_ai,
            identify,
            alias,
            group,
            flag,
            payload,
            everything,
            evaluated,
        )
    } | {
        "open": open_client,
        "remote_config": remote_config,
        "reload": reload,
        "flush": flush,
        "close": close,
    }
    answers = sys.stdout
    for line in sys.stdin:
        name, arguments = json.loads(line)
        answers.write(json.dumps(actions[name](**arguments)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
