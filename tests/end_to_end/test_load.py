"""The load test that is shipped runs against the real service."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.serving import serving

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_locust_file_reranks_and_reports_the_servers_stages(tmp_path: Path) -> None:
    with serving(ROOT / "models", log=tmp_path / "server.log") as client:
        command = [
            *(sys.executable, "-m", "locust", "--locustfile", ROOT / "deploy" / "locustfile.py"),
            *("--host", str(client.base_url), "--headless", "--users", "5", "--spawn-rate", "5"),
            *("--run-time", "5s", "--csv", tmp_path / "load", "--only-summary"),
        ]
        answer = subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, check=False, timeout=120
        )

    assert 0 == answer.returncode, answer.stdout + answer.stderr
    with (tmp_path / "load_stats.csv").open() as file:
        rows = {(row["Type"], row["Name"]): row for row in csv.DictReader(file)}
    assert int(rows["POST", "/v1/rerank"]["Request Count"]) >= 10
    assert 0 == sum(int(row["Failure Count"]) for row in rows.values())
    assert {"decode", "sign", "route", "score", "order", "encode", "total"} <= {
        name for kind, name in rows if kind == "stage"
    }
    requests = sum(int(row["Request Count"]) for (kind, _), row in rows.items() if kind in {"GET", "POST"})
    assert requests == int(rows["", "Aggregated"]["Request Count"])
