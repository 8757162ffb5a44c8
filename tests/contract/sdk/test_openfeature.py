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

from tests.contract.sdk.openfeature_flags import makes_flags
from tests.contract.sdk.projects import Project
from tests.faulty_proxy import Fault, FaultyProxy
from tests.live import LiveServer, seconds_until

ANN = EvaluationContext(targeting_key="ann", attributes={"plan": "pro"})


@pytest.fixture(scope="module")
def project(project: Project) -> Project:
    return makes_flags(project)


@pytest.fixture
def client(live: LiveServer, project: Project) -> Iterator[OpenFeatureClient]:
    yield from opened(live.address, {"Authorization": f"Bearer {project.token}"})


def opened(
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


def test_who_is_not_in_gets_false_or_the_apps_default(client: OpenFeatureClient) -> None:
    bob = EvaluationContext(targeting_key="bob")
    assert client.get_boolean_value("beta", True, bob) is False
    shades = client.get_string_details("shades", "light", bob)
    assert (shades.value, shades.reason, shades.error_code) == ("light", Reason.DEFAULT, None)


def test_errors_are_openfeatures(client: OpenFeatureClient) -> None:
    missing = client.get_boolean_details("no-such", True, ANN)
    assert (missing.value, missing.error_code) == (True, ErrorCode.FLAG_NOT_FOUND)
    nobody = client.get_boolean_details("beta", True, EvaluationContext())
    assert nobody.error_code == ErrorCode.TARGETING_KEY_MISSING
    mismatch = client.get_string_details("beta", "x", ANN)
    assert (mismatch.value, mismatch.error_code) == ("x", ErrorCode.TYPE_MISMATCH)
    strange = EvaluationContext(targeting_key="ann", attributes={"$groups": "acme"})
    assert client.get_boolean_details("beta", True, strange).error_code == ErrorCode.INVALID_CONTEXT


def test_a_change_counts_with_the_next_question(
    client: OpenFeatureClient, project: Project
) -> None:
    for active in (False, True):
        project.does("feature_flags/beta", active=active)
        beta = client.get_boolean_details("beta", not active, ANN)
        assert (beta.value, beta.reason == Reason.DISABLED) == (active, not active)


def test_a_wrong_key_gives_the_apps_default(live: LiveServer) -> None:
    for client in opened(live.address, {"X-API-Key": "phc_no-such-key"}):
        refused = client.get_boolean_details("beta", True, ANN)
        assert (refused.value, refused.error_code) == (True, ErrorCode.GENERAL)
        assert refused.error_message == "unauthorized"


@pytest.mark.parametrize("fault", Fault)
def test_the_apps_default_counts_until_the_way_is_clear(
    fault: Fault, live: LiveServer, project: Project
) -> None:
    timeout_s = 0.5 if fault is Fault.DELAYS else 60
    with FaultyProxy(live.address) as proxy:
        for client in opened(proxy.address, {"X-API-Key": project.token}, timeout_s):
            proxy.fail(fault)
            shades = client.get_string_details("shades", "light", ANN)
            assert (shades.value, shades.error_code) == ("light", ErrorCode.GENERAL)
            proxy.heal()
            is_dark = partial(client.get_string_value, "shades", "light", ANN)
            seconds_until(lambda is_dark=is_dark: is_dark() == "dark", at_most_s=60)  # type: ignore[misc]
