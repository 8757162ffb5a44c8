from hedgerow.edge.forwarding import FIRST_PAUSE_S, MAX_PAUSE_S, OriginPatience
from hedgerow.edge.http import CAPTURE_PATHS, READ_PATHS
from hedgerow.http.endpoint import endpoints_of
from hedgerow.http.sdk.capture import CaptureEndpoints
from hedgerow.http.sdk.early_access import PublicFeatureEndpoints
from hedgerow.http.sdk.sdk_stubs import RecordingEndpoints
from hedgerow.http.sdk.surveys import PublicSurveyEndpoints


def list_paths(*classes: type) -> set[str]:
    return {path for each in classes for found in endpoints_of(each) for path in found.paths}


def test_every_public_path_of_the_service_is_forwarded() -> None:
    assert set(CAPTURE_PATHS) == list_paths(CaptureEndpoints, RecordingEndpoints)
    assert set(READ_PATHS) == list_paths(PublicFeatureEndpoints, PublicSurveyEndpoints)


def test_pauses_grow_until_the_origin_answers() -> None:
    now_s = 100.0
    patience = OriginPatience(lambda: now_s)
    pauses = []
    for _ in range(8):
        assert not patience.is_over
        patience.record_failure()
        started_s = now_s
        while patience.is_over:
            now_s += FIRST_PAUSE_S
        pauses.append(now_s - started_s)
    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses[-1] == MAX_PAUSE_S
    patience.record_failure()
    patience.record_success()
    assert not patience.is_over
