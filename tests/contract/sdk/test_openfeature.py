"""OpenFeature's SDK with its OFREP provider, against a live server."""

from collections.abc import Iterator
from functools import partial

import pytest
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason

from tests.contract.sdk.openfeature_flags import create_flags
from tests.contract.sdk.projects import Project
from tests.support.faulty_proxy import Fault, FaultyProxy
from tests.support.live import LiveServer, wait_for

ANN = EvaluationContext(targeting_key="ann", attributes={"plan": "pro"})


@pytest.fixture(scope="module")
def project(project: Project) -> Project:
    return create_flags(project)


@pytest.fixture
def client(live: LiveServer, project: Project) -> Iterator[OpenFeatureClient]:
    yield from open_client(live.address, {"Authorization": f"Bearer {project.token}"})


def open_client(
    address: str, headers: dict[str, str], timeout_s: float = 60
) -> Iterator[OpenFeatureClient]:
    provider = OFREPProvider(address, headers_factory=lambda: headers, timeout=timeout_s)
    api.set_provider(provider, "hedgerow")
    yield api.get_client("hedgerow")
    provider.session.close()
    api.clear_providers()


def test_values_of_every_type(client: OpenFeatureClient) -> None:
    beta = client.get_boolean_details("beta", False, ANN)
    assert (beta.value, beta.reason, beta.variant) == (True, Reason.TARGETING_MATCH, "true")
    assert beta.flag_metadata["reason"] == "condition_match"
    assert client.get_string_value("shades", "light", ANN) == "dark"
    assert client.get_object_value("limits", {}, ANN) == {"uploads": 3}
    assert client.get_float_value("share", 0.1, ANN) == 0.5
    assert client.get_integer_value("tries", 1, ANN) == 3
    assert client.get_string_value("greeting", "", ANN) == "hello"


def test_user_outside_the_rollout_gets_false_or_the_default(client: OpenFeatureClient) -> None:
    bob = EvaluationContext(targeting_key="bob")
    assert client.get_boolean_value("beta", True, bob) is False
    shades = client.get_string_details("shades", "light", bob)
    assert (shades.value, shades.reason, shades.error_code) == ("light", Reason.DEFAULT, None)


def test_errors_are_openfeature_errors(client: OpenFeatureClient) -> None:
    missing = client.get_boolean_details("no-such", True, ANN)
    assert (missing.value, missing.error_code) == (True, ErrorCode.FLAG_NOT_FOUND)
    anonymous = client.get_boolean_details("beta", True, EvaluationContext())
    assert anonymous.error_code == ErrorCode.TARGETING_KEY_MISSING
    mismatch = client.get_string_details("beta", "x", ANN)
    assert (mismatch.value, mismatch.error_code) == ("x", ErrorCode.TYPE_MISMATCH)
    invalid = EvaluationContext(targeting_key="ann", attributes={"$groups": "acme"})
    assert client.get_boolean_details("beta", True, invalid).error_code == ErrorCode.INVALID_CONTEXT


def test_change_applies_to_the_next_evaluation(client: OpenFeatureClient, project: Project) -> None:
    for active in (False, True):
        project.update("feature_flags/beta", active=active)
        beta = client.get_boolean_details("beta", not active, ANN)
        assert (beta.value, beta.reason == Reason.DISABLED) == (active, not active)


def test_invalid_key_gives_the_default(live: LiveServer) -> None:
    for client in open_client(live.address, {"X-API-Key": "phc_no-such-key"}):
        refused = client.get_boolean_details("beta", True, ANN)
        assert (refused.value, refused.error_code) == (True, ErrorCode.GENERAL)
        assert refused.error_message == "unauthorized"


@pytest.mark.parametrize("fault", Fault)
def test_default_is_used_until_the_service_is_reachable(
    fault: Fault, live: LiveServer, project: Project
) -> None:
    timeout_s = 1 if fault is Fault.DELAYS else 60
    with FaultyProxy(live.address) as proxy:
        for client in open_client(proxy.address, {"X-API-Key": project.token}, timeout_s):
            proxy.fail(fault)
            shades = client.get_string_details("shades", "light", ANN)
            assert (shades.value, shades.error_code) == ("light", ErrorCode.GENERAL)
            proxy.heal()
            is_dark = partial(client.get_string_value, "shades", "light", ANN)
            wait_for(lambda is_dark=is_dark: is_dark() == "dark", at_most_s=60)  # type: ignore[misc]
