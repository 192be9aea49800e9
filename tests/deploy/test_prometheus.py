"""A real Prometheus scrapes a real service with several workers, loads the alerts and answers the dashboard's questions."""

from __future__ import annotations

import re
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import yaml

from tests.deploy.test_deploy import DEPLOY, ROOT, expressions, system
from tests.end_to_end.serving import free_port, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

QUERY = {"documents": [{"features": [0.5] * 10}, {"features": [0.25] * 10}]}


@contextmanager
def scraping(target: str, folder: Path) -> Iterator[httpx.Client]:
    """Run Prometheus with the configuration of this project, pointed at the service and scraping twice a second."""
    configuration = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    configuration["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
    (job,) = configuration["scrape_configs"]
    job["static_configs"] = [{"targets": [target]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    (folder / "alerts.yml").symlink_to(DEPLOY / "alerts.yml")
    port = free_port()
    command = [
        system("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10) as client:
                assert until(lambda: answers(client)), (folder / "prometheus.log").read_text()
                yield client
        finally:
            process.terminate()
            process.wait(timeout=30)


def answers(client: httpx.Client) -> bool:
    try:
        return 200 == client.get("/-/ready").status_code
    except httpx.TransportError:
        return False


def until(true: Callable[[], Any]) -> bool:
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.1)
    return False


def value(prometheus: httpx.Client, expression: str) -> float | None:
    """The one number that the expression has now."""
    result = asked(prometheus, expression)
    return float(result[0]["value"][1]) if result else None


def asked(prometheus: httpx.Client, expression: str) -> list[dict[str, Any]]:
    answer = prometheus.get("/api/v1/query", params={"query": expression}).json()
    assert "success" == answer["status"], answer
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def test_prometheus_scrapes_the_service_loads_the_alerts_and_answers_the_dashboard(tmp_path: Path) -> None:
    with serving(ROOT / "models", "--workers", "2", log=tmp_path / "server.log") as service:
        for _ in range(20):
            assert 200 == service.post("/v1/rerank", json=QUERY).status_code
        assert 422 == service.post("/v1/rerank", json={"features": [[1]]}).status_code
        with scraping(service.base_url.netloc.decode(), tmp_path) as prometheus:
            # All workers are in every scrape, whichever of them answers it.
            count = 'sum(localrank_requests_total{outcome="ok"})'
            assert until(lambda: value(prometheus, count) == 20), value(prometheus, count)
            (target,) = prometheus.get("/api/v1/targets").json()["data"]["activeTargets"]
            (group,) = prometheus.get("/api/v1/rules").json()["data"]["groups"]
            declared = re.findall(r"^# TYPE (\S+) (\S+)", service.get("/metrics").text, re.MULTILINE)
            kinds = prometheus.get("/api/v1/metadata").json()["data"]
            for expression in expressions():
                asked(prometheus, expression.replace("$__rate_interval", "1m"))
            median = value(
                prometheus, "histogram_quantile(0.5, sum by (le) (localrank_request_duration_seconds_bucket))"
            )
            invalid = value(prometheus, 'sum(localrank_requests_total{outcome="invalid"})')
            assert until(lambda: evaluated(prometheus)), prometheus.get("/api/v1/rules").text

    assert ("up", "") == (target["health"], target["lastError"])
    written = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"][0]
    assert [rule["alert"] for rule in written["rules"]] == [rule["name"] for rule in group["rules"]]
    assert {name: [kind] for name, kind in declared} == {
        name: [one["type"] for one in kinds[name]] for name, _ in declared if name in kinds
    }
    assert median is not None
    assert 0 < median < 1
    assert 1 == invalid


def evaluated(prometheus: httpx.Client) -> bool:
    """Whether every rule was evaluated without an error; none of them fires."""
    (group,) = prometheus.get("/api/v1/rules").json()["data"]["groups"]
    assert not [rule["lastError"] for rule in group["rules"] if rule.get("lastError")]
    return all(rule["health"] == "ok" and rule["state"] == "inactive" for rule in group["rules"])
