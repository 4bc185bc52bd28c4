"""The meter: series that begin at 0, and bounds on their number whatever names come."""

from __future__ import annotations

import pytest

from koala.common.metrics import declarations as m
from koala.common.metrics.declarations import METRICS, Source
from koala.common.metrics.meter import Meter
from koala.common.metrics.readings import Readings
from tests.common.metrics.scraping import rendered, samples, value

HOSTILE = ('a"b', "a\\", "a\nkoala_jobs 9", "x" * 10_000, "", "{}", "\x00", "ü☃", "site=delft")


def meter_of(
    source: Source = Source.DAEMON, readings: Readings | None = None, *, sites_max: int = 100
) -> Meter:
    found = readings or Readings()
    return Meter(source, read=lambda: found, sites_max=sites_max)


def series(text: str, name: str) -> set[tuple[tuple[str, str], ...]]:
    return {labels for found, labels in samples(text) if found == name}


@pytest.mark.parametrize("source", list(Source))
def test_a_process_has_all_its_metrics_and_no_others(source: Source) -> None:
    text = rendered(meter_of(source).registry)
    for metric in METRICS:
        assert (f"# TYPE {metric.name} " in text) is (source in metric.sources), metric.name


def test_counters_with_few_values_begin_at_zero() -> None:
    text = rendered(meter_of().registry)
    assert value(text, "koala_jobs_ended_total", outcome="failed") == 0
    assert value(text, "koala_job_wait_seconds_count", priority="high") == 0
    assert series(text, "koala_call_duration_seconds_count") == set()


def test_names_beyond_the_bounds_count_as_other() -> None:
    meter = meter_of(sites_max=2)
    for site in ("a", "b", "c", "d", "a"):
        meter.add(m.CLAIMS_ASKED, site)
    meter.know_site("e")
    for reason in HOSTILE:
        meter.add(m.CLAIMS_ENDED, "a", reason)
    text = rendered(meter.registry)
    assert series(text, "koala_claims_asked_total") == {
        (("site", name),) for name in ("a", "b", "other")
    }
    assert value(text, "koala_claims_asked_total", site="a") == 2
    assert value(text, "koala_claims_asked_total", site="other") == 2
    assert value(text, "koala_claims_ended_total", site="a", reason="other") == len(HOSTILE)


def test_readings_of_sites_beyond_the_bound_are_left_out() -> None:
    readings = Readings()
    for site in ("a", "b", "c"):
        readings.set(m.SITE_UP, 1, site)
    readings.set(m.JOBS, 5, "placing", "high")
    readings.set(m.JOBS, 7, "placing", "b")  # the local queue of a site
    text = rendered(meter_of(readings=readings, sites_max=2).registry)
    assert series(text, "koala_site_up") == {(("site", "a"),), (("site", "b"),)}
    assert value(text, "koala_jobs", phase="placing", queue="high") == 5
    assert value(text, "koala_jobs", phase="placing", queue="b") == 7


def test_a_metric_that_was_not_declared_for_the_process_is_an_error() -> None:
    with pytest.raises(KeyError):
        meter_of(Source.AGENT).add(m.CLAIMS_ASKED, "delft")
    with pytest.raises(ValueError, match="zip"):
        meter_of().add(m.CLAIMS_ENDED, "delft")
