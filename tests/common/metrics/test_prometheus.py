"""A real Prometheus scrapes a real grid, and promtool checks what is shipped for it."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from tests.common.metrics.scraping import get
from tests.common.metrics.shipped import PROMETHEUS, alert_rules, metrics_in, panel_queries
from tests.harness.moments import moment
from tests.harness.ports import free_port
from tests.harness.programs import needed_program
from tests.live.grid import Grid, live_grid

pytestmark = [pytest.mark.long, pytest.mark.live]

SITES = {"delft": 4, "leiden": 4, "vu": 2}
BROKEN = "&(executable=/bin/true)(count=1)(resourceManagerContact=vu)"
TWO = "+(&(executable=/bin/true)(count=2))(&(executable=/bin/true)(count=2))"
COPY = "&(executable=/bin/true)(count=1)(inputFile=input.dat)(resourceManagerContact=leiden)"
LIMIT_S = 100.0


def program(name: str) -> str:
    """Find a program of Prometheus; skip the test where it is missing."""
    return needed_program(name, package="prometheus")


def promtool(*words: str, given: str = "", folder: Path = PROMETHEUS) -> str:
    """Run promtool; return what it printed."""
    run = subprocess.run(
        [program("promtool"), *words],
        cwd=folder,
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    return run.stdout


def test_promtool_accepts_configuration_and_rules() -> None:
    assert "SUCCESS" in promtool("check", "config", "prometheus.yml")
    assert f"{len(alert_rules())} rules found" in promtool("check", "rules", "koala-alerts.yml")


def test_the_alerts_pass_their_tests() -> None:
    assert "SUCCESS" in promtool("test", "rules", "koala-alerts-test.yml")


@dataclass(frozen=True, slots=True)
class Api:
    """The HTTP interface of a Prometheus."""

    address: str

    async def ask(self, path: str, parameters: Mapping[str, str]) -> Any:
        """Return the data of an answer."""
        url = f"http://{self.address}{path}?{urlencode(parameters)}"
        status, _, text = await asyncio.to_thread(get, url)
        answer = json.loads(text)
        assert (status, answer["status"]) == (200, "success"), text
        return answer["data"]

    async def query(self, query: str) -> list[dict[str, Any]]:
        """Return the result of a query."""
        found = await self.ask("/api/v1/query", {"query": query})
        result: list[dict[str, Any]] = found["result"]
        return result

    async def has(self, query: str) -> None:
        """Wait until a query has a result."""
        try:
            async with asyncio.timeout(LIMIT_S):
                while not await self.query(query):
                    await moment(0.5)
        except TimeoutError:
            pytest.fail(f"no answer to {query}")


def start(folder: Path, address: str, targets: Mapping[str, list[str]]) -> subprocess.Popen[bytes]:
    """Start a Prometheus with the shipped configuration, but at these targets and every second."""
    config = yaml.safe_load(PROMETHEUS.joinpath("prometheus.yml").read_text(encoding="utf-8"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(PROMETHEUS / name) for name in config["rule_files"]]
    for job in config["scrape_configs"]:
        job["static_configs"] = [{"targets": targets[job["job_name"]]}]
    folder.mkdir()
    folder.joinpath("prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    with folder.joinpath("log").open("wb") as log:
        return subprocess.Popen(
            [
                program("prometheus"),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


@asynccontextmanager
async def prometheus(folder: Path, targets: Mapping[str, list[str]]) -> AsyncIterator[Api]:
    """Run a Prometheus that answers."""
    address = f"127.0.0.1:{free_port()}"
    process = start(folder, address, targets)
    try:
        api = Api(address)
        async with asyncio.timeout(LIMIT_S):
            while True:
                assert process.poll() is None, folder.joinpath("log").read_text(encoding="utf-8")
                try:
                    await api.query("up")
                    break
                except (OSError, AssertionError, ValueError):
                    await moment(0.2)
        yield api
    finally:
        process.terminate()
        process.wait(LIMIT_S)


async def target_of(grid: Grid, path: str) -> str:
    """Return host and port of an endpoint, once it is there: sites are usable before a relay is."""
    file = grid.state / path
    async with asyncio.timeout(grid.patience_s):
        while not file.exists():
            await moment()
    return file.read_text(encoding="utf-8").split("/")[2]


async def test_prometheus_scrapes_a_grid_and_every_query_has_an_answer(tmp_path: Path) -> None:
    metrics = '[metrics]\nlisten = "127.0.0.1:0"\n'
    more = {"daemon": f'{metrics}relay = "127.0.0.1:0"\n', **dict.fromkeys(SITES, metrics)}
    more["vu"] += "[lrm]\nfault_rate = 1.0\n"
    replicas = {"input.dat": (b"x" * 100_000, ("delft",))}
    with live_grid(tmp_path / "grid", sites=SITES, more=more, replicas=replicas) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            targets = {
                "koala-daemon": [await target_of(grid, "daemon/metrics.url")],
                "koala-relay": [await target_of(grid, "daemon/relay-metrics.url")],
                "koala-agent": [await target_of(grid, f"{site}/metrics.url") for site in SITES],
            }
            for addresses in targets.values():
                for address in addresses:
                    text = get(f"http://{address}/metrics")[2]
                    assert promtool("check", "metrics", given=text) == ""
            async with prometheus(tmp_path / "prometheus", targets) as api:
                await api.has("count(up == 1) == 5")
                lost = await client.submit(BROKEN)
                await api.has('koala_site_faults_total{site="vu"} > 0')
                await lost.cancel()
                for _ in range(3):
                    for description in (TWO, "&(executable=/bin/false)(count=1)", COPY):
                        await (await client.submit(description)).wait()
                await api.has("sum(koala_jobs_ended_total) == 10")
                await api.has('rate(koala_jobs_ended_total{outcome="finished"}[60s]) > 0')
                await check_numbers(api, client)
                for _, query in panel_queries():
                    await api.has(
                        query.replace("$__rate_interval", "60s")
                    )  # rates need two scrapes
                names = {name for rule in alert_rules() for name in metrics_in(rule["expr"])}
                for name in names - {"koala_leases_expired_total"}:  # needs an hour without a link
                    assert await api.query(f"count({name})"), f"{name} is not scraped"
                for group in (await api.ask("/api/v1/rules", {}))["groups"]:
                    assert {rule["health"] for rule in group["rules"]} == {"ok"}, group
                grid.kill("leiden")
                await api.has('up{job="koala-agent"} == 0')
                await api.has('koala_site_up{site="leiden"} == 0')
                await api.has('ALERTS{alertname="KoalaSiteAway",alertstate="pending"}')


async def check_numbers(api: Api, client: Any) -> None:
    """Compare numbers of Prometheus with those of the daemon's own interface."""
    own = await client.metrics()
    ended = await api.query("sum by (outcome) (koala_jobs_ended_total)")
    found = {one["metric"]["outcome"]: int(one["value"][1]) for one in ended}
    assert found == {
        name.lower(): own["jobs"].get(name, 0) for name in ("Finished", "Failed", "Cancelled")
    }
    (capacity,) = await api.query("sum(koala_site_capacity_processors)")
    assert int(capacity["value"][1]) == sum(site["processors"] for site in await client.sites())
    asked = await api.query("sum(koala_claims_asked_total)")
    granted = await api.query("sum(koala_agent_claims_granted_total)")
    assert int(asked[0]["value"][1]) >= int(granted[0]["value"][1]) > 0
