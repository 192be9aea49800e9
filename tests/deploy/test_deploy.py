"""What cannot be run here is parsed and linted: images, compose, Prometheus, Grafana, shell."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from localrank_service.telemetry.meters import Meters

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent


def run(*command: str | Path) -> None:
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == answer.returncode, answer.stdout + answer.stderr


def system(tool: str) -> str:
    return shutil.which(tool) or pytest.skip(f"needs {tool}: make test-deps")


def exposed() -> set[str]:
    """Names of every series that the service may expose."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)", Meters().expose().decode(), re.MULTILINE))
    return {
        name + suffix
        for name, kind in kinds.items()
        for suffix in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))
    }


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((DEPLOY / "grafana/dashboards/localrank.json").read_text())
    return loaded


def expressions() -> list[str]:
    alerts = yaml.safe_load((DEPLOY / "alerts.yml").read_text())
    rules = [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]
    return rules + [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]


def test_the_dockerfile_has_no_fault_that_hadolint_knows() -> None:
    # DL3008: pinned Debian versions disappear from the archive; the base image pins the release.
    run(BIN / "hadolint", "--ignore", "DL3008", ROOT / "Dockerfile")


def test_the_dockerfile_copies_what_is_there() -> None:
    copied = re.findall(
        r"^COPY (?!--from)(?:--\S+ )?(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE
    )
    sources = [source for line in copied for source in line.split()]
    ignored = (ROOT / ".dockerignore").read_text().splitlines()

    assert len(sources) > 5
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, f"{source} is kept out by .dockerignore"


def test_the_compose_file_fits_its_schema() -> None:
    run(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml")


def test_the_compose_file_mounts_what_is_there() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    mounts = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", ())]

    mounted = [DEPLOY / mount for mount in mounts if mount.startswith(".")]
    assert mounted
    assert all(path.exists() for path in mounted)


def test_prometheus_accepts_its_configuration_and_the_alerts() -> None:
    run(system("promtool"), "check", "config", DEPLOY / "prometheus.yml")


def test_prometheus_can_read_every_expression(tmp_path: Path) -> None:
    promtool = system("promtool")
    plain = [re.sub(r"\$__rate_interval", "1m", expression) for expression in expressions()]
    rules = [{"record": f"r{i}", "expr": expression} for i, expression in enumerate(plain)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))

    run(promtool, "check", "rules", tmp_path / "rules.yml")


def test_dashboard_and_alerts_ask_for_series_that_exist() -> None:
    asked = {name for expression in expressions() for name in re.findall(r"\blocalrank_\w+", expression)}

    assert len(asked) > 10
    assert asked <= exposed()


def test_panels_do_not_overlap() -> None:
    cells = [
        (x, y)
        for panel in dashboard()["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]

    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


@pytest.mark.parametrize("script", [".ci/interpreters", ".ci/run", ".ci/system-packages"])
def test_shell_scripts_have_no_fault_that_shellcheck_knows(script: str) -> None:
    run(system("shellcheck"), ROOT / script)
