"""The balancers' configurations are read by the balancers, and a small fleet behind each loses no request."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
import yaml

from benchmarks import fleet
from tests.end_to_end.serving import free_port

DEPLOY = Path(__file__).parents[2] / "deploy"


def program(name: str) -> str:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") or pytest.skip(
        f"needs {name}: make test-deps"
    )


def addressed(name: str) -> str:
    """A configuration with addresses for the names, which are looked up when a balancer starts."""
    return re.sub(r"localrank-\d:8080", "127.0.0.1:8080", (DEPLOY / name).read_text())


def test_haproxy_accepts_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "haproxy.cfg").write_text(addressed("haproxy.cfg"))

    checked = subprocess.run(
        [program("haproxy"), "-c", "-f", str(tmp_path / "haproxy.cfg")],
        check=False,
        capture_output=True,
        text=True,
    )

    assert 0 == checked.returncode, checked.stdout + checked.stderr
    assert not re.search("warning|alert", checked.stdout + checked.stderr, re.IGNORECASE)


def test_nginx_accepts_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "nginx.conf").write_text(f"pid {tmp_path}/pid;\n{addressed('nginx.conf')}")

    checked = subprocess.run(
        [program("nginx"), "-t", "-e", f"{tmp_path}/log", "-c", f"{tmp_path}/nginx.conf"],
        check=False,
        capture_output=True,
        text=True,
    )

    assert 0 == checked.returncode, checked.stderr
    assert "warn" not in checked.stderr


class Echo(BaseHTTPRequestHandler):
    """Answers with the host that it was asked for."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.headers.get("Host", "").encode()  # health checks have none
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.slow
@pytest.mark.parametrize("balancer", fleet.BALANCERS)
def test_the_service_learns_under_which_host_and_port_a_page_was_opened(
    balancer: str, tmp_path: Path
) -> None:
    """It compares them with the page's origin before it changes anything."""
    program(balancer)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = free_port()

    with fleet.balancing(balancer, {port: [server.server_port]}, tmp_path / "balancer"):
        found = httpx.get(f"http://localhost:{port}/").text
    server.shutdown()
    server.server_close()

    assert f"localhost:{port}" == found


def test_the_composed_fleet_fits_its_schema_and_the_balancer_knows_its_instances() -> None:
    composed = yaml.safe_load((DEPLOY / "fleet.yaml").read_text())
    tool = Path(sys.executable).parent / "check-jsonschema"

    checked = subprocess.run(
        [tool, "--builtin-schema", "vendor.compose-spec", DEPLOY / "fleet.yaml"],
        check=False,
        capture_output=True,
    )

    assert 0 == checked.returncode, checked.stdout
    instances = {name for name in composed["services"] if name != "balancer"}
    for name in ("haproxy.cfg", "nginx.conf"):
        assert instances == set(re.findall(r"(localrank-\d):8080", (DEPLOY / name).read_text())), name
    drain = float(composed["services"]["localrank-1"]["environment"]["LOCALRANK_DRAIN_SECONDS"])
    inter, fall = re.findall(r"inter (\d+)ms fall (\d+)", (DEPLOY / "haproxy.cfg").read_text())[0]
    assert drain > int(inter) / 1000 * int(fall)


@pytest.mark.soak
@pytest.mark.parametrize("balancer", fleet.BALANCERS)
def test_promotions_and_restarts_of_a_fleet_lose_no_request(balancer: str, tmp_path: Path) -> None:
    program(balancer)

    with fleet.fleet(balancer, 2, tmp_path) as found:
        promoted, switches, _ = fleet.promote(found, 15.0, 8.0)
        restarted, restarts = fleet.restart(found, 15.0, 45.0)

    for offered in (promoted, restarted):
        assert [] == offered.failures[:5]
        assert [] == offered.wrong[:5]
    assert switches >= 1
    assert restarts >= 1
    assert {1, 2} == set(promoted.versions)
    assert 15 * 8 == len(promoted.latencies)
