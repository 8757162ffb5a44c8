import pytest

from hedgerow.errors import OperatorError
from hedgerow.outbound.otlp import read_otlp_options

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/"}


def test_nothing_is_exported_without_an_address() -> None:
    assert not read_otlp_options({}).is_enabled
    assert not read_otlp_options(ENDPOINT | {"OTEL_SDK_DISABLED": "true"}).is_enabled


def test_signals_have_their_own_addresses() -> None:
    options = read_otlp_options(
        ENDPOINT
        | {
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "https://metrics/x",
            "OTEL_TRACES_SAMPLER_ARG": "7",
            "OTEL_SERVICE_NAME": "flags",
            "OTEL_RESOURCE_ATTRIBUTES": "service.name=other, a=b%2Cc",
        }
    )
    assert options.traces_url == "http://collector:4318/v1/traces"
    assert options.metrics_url == "https://metrics/x"
    assert options.sample_ratio == 1
    assert options.resource == {"service.name": "flags", "a": "b,c"}
    assert read_otlp_options(ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}).traces_url == ""


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"},
        {"OTEL_EXPORTER_OTLP_HEADERS": "Bearer"},
        {"OTEL_TRACES_SAMPLER_ARG": "much"},
    ],
)
def test_a_value_that_cannot_be_used_is_refused(variables: dict[str, str]) -> None:
    with pytest.raises(OperatorError, match="OTEL_"):
        read_otlp_options(variables)
