"""Means that are adjusted by what people did before, of a live service."""

from pathlib import Path

import pytest

from tests.contract.experiments.world import COUNT, FUNNEL, ExperimentFixture, query_endpoint
from tests.support.live import LiveServer


def test_means_are_adjusted_by_history(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server, server.client() as client:
        stats = {"method": "frequentist", "cuped": {"enabled": True, "lookback_days": 2}}
        experiment = ExperimentFixture(client, "cuped", metrics=[COUNT, FUNNEL], stats_config=stats)
        # Purchases before and after the exposure, as in the unit test.
        pairs = {
            "control": [(0, 1), (0, 3), (2, 4), (2, 6)] * 3,
            "test": [(0, 2), (2, 5), (2, 7), (2, 6)] * 3,
        }
        sent = []
        for variant, people in pairs.items():
            for number, (before, after) in enumerate(people):
                person = f"{variant}-{number}"
                sent.append(experiment.exposure(person, variant, 10))
                # Only the last two days count, also before the start of the experiment.
                sent += [experiment.event(person, "bought", 9 - n * 40) for n in range(before)]
                sent.append(experiment.event(person, "bought", 10 - 49))
                sent += [experiment.event(person, "bought", 11) for _ in range(after)]
        experiment.send(*sent)
        mean, funnel = experiment.results()["metrics"]
        assert mean["cuped"] == {
            "lookback_days": 2,
            "theta": pytest.approx(36 / 21),
            "variance_reduction": pytest.approx(36 * 36 / (21 * 81)),
        }
        control, [test] = mean["baseline"], mean["variant_results"]
        assert (control["sum"], control["covariate_sum"]) == (42, 12)
        assert (test["value"], test["covariate_sum"]) == (pytest.approx(5 - 3 / 7), 18)
        assert funnel["cuped"] is None
        found = query_endpoint(client, experiment, "ExperimentQuery", metric=COUNT).json()
        assert found["baseline"]["main_covariate_sum_product"] == 3 * (8 + 12)
        odd = {"stats_config": {"cuped": {"enabled": True, "lookback_days": 99}}}
        refused = client.patch(experiment.url, json=odd)
        assert (refused.status_code, refused.json()["attr"]) == (
            400,
            "stats_config__cuped__lookback_days",
        )
        odd = {"stats_config": {"cuped": {"lookback": 7}}}
        assert "lookback_days" in client.patch(experiment.url, json=odd).text
