"""The whole loop with a real service: users click, their clicks become a model, and the model is better."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from localrank.__main__ import main
from localrank.client import Client
from localrank.journal import Logged
from tests.end_to_end.serving import serving

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from localrank.arrays import Matrix, Vector

ADMIN = "the-admin-key"
N_QUERIES, N_CANDIDATES, N_SHOWN, N_FEATURES = 60, 20, 10, 5
#: What users like, which the first model does not know.
TASTE = np.array([2.0, -1.0, 0.0, 1.0, 0.0])
#: Half of the sessions get the new version.
CANARY = {"kind": "canary", "model": "web", "candidate": "web@2", "percent": 50}
#: How likely users look at each place: they hardly see the lower half.
LOOKS = 1 / np.arange(1, N_SHOWN + 1) ** 1.5


def attraction(documents: Matrix) -> Vector:
    attracted: Vector = 0.9 / (1 + np.exp(-2 * (documents @ TASTE) + 1.5))
    return attracted


def letor(path: Path, queries: list[Matrix], labels: list[Vector]) -> Path:
    lines = [
        f"{label:g} qid:{query} " + " ".join(f"{i}:{value!r}" for i, value in enumerate(row, 1))
        for query, (documents, judged) in enumerate(zip(queries, labels, strict=True))
        for row, label in zip(documents.tolist(), judged.tolist(), strict=True)
    ]
    path.write_text("\n".join(lines))
    return path


class Users:
    """They look from the top, less and less, and click what they like and have seen."""

    def __init__(self, client: Client, queries: list[Matrix]) -> None:
        self._client, self._queries = client, queries
        self._random = np.random.default_rng(7)

    def come(self, times: int) -> float:
        """Ask, look and click; return the mean attraction of what stood at the top three places."""
        seen = []
        for visit in range(times):
            query = int(self._random.integers(N_QUERIES))
            # The engine finds other candidates from time to time, so that documents change their places.
            chosen = self._random.choice(N_CANDIDATES, N_SHOWN, replace=False)
            documents = self._queries[query][chosen]
            answer = self._client.rerank(documents, query_id=f"q{query}", session_id=f"s{visit}")
            liked = attraction(documents)[answer.order]
            seen.append(liked[:3].mean())
            clicked = self._random.random(N_SHOWN) < LOOKS * liked
            if clicked.any():
                said = self._client.feedback(answer, clicks=answer.order[clicked].tolist())
                assert clicked.sum() == said["accepted"]
        return float(np.mean(seen))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert 0 == main(list(arguments)), capsys.readouterr().err
    return capsys.readouterr().out


def test_clicks_become_a_better_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    queries = [
        random.standard_normal((N_CANDIDATES, N_FEATURES)).astype(np.float32) for _ in range(N_QUERIES)
    ]
    exam = [random.standard_normal((N_CANDIDATES, N_FEATURES)).astype(np.float32) for _ in range(40)]
    truth = [np.digitize(attraction(one), [0.3, 0.6, 0.8]).astype(float) for one in exam]
    # The first model was trained on judges who like something else.
    wrong = letor(
        tmp_path / "wrong.txt", queries, [(one[:, 2] + one[:, 4] > 0.5).astype(float) for one in queries]
    )
    judged = letor(tmp_path / "judged.txt", exam, truth)
    models, log, clicks = tmp_path / "models", tmp_path / "impressions", tmp_path / "clicks.parquet"
    train = ("train", "--name", "web", "--learner", "ranksvm", "--models-dir", str(models))
    run(capsys, *train, str(wrong), "--promote")
    flags = [
        *("--admin-key", ADMIN, "--experiments-file", str(tmp_path / "experiments.json")),
        *("--impression-log", "1", "--impression-log-dir", str(log)),
    ]
    admin = {"x-api-key": ADMIN}

    with serving(models, *flags) as http, Client(str(http.base_url), timeout=30) as client:
        users = Users(client, queries)
        before = users.come(500)
        # Everything that waits is written within a fifth of a second.
        while http.get("/v1/stats").json()["impressions"]["logged"] < 500:
            pass
        export = ("data", "export", str(log), "--out", str(clicks), "--propensities", "em", "--json")
        exported = json.loads(run(capsys, *export))
        run(capsys, *train, str(clicks))
        http.post("/v1/models/web/promote", json={"version": 2, "alias": "next"}, headers=admin)
        figures = [
            http.post(
                f"/v1/evaluate?model=web@{version}",
                content=judged.read_bytes(),
                headers={"content-type": "text/plain"},
            ).json()
            for version in (1, 2)
        ]
        begun = http.put("/v1/experiments/web-2", json=CANARY, headers=admin)
        users.come(150)
        [canary] = http.get("/v1/experiments").json()["experiments"]
        ended = http.delete("/v1/experiments/web-2", headers=admin)
        promoted = http.post("/v1/models/web/promote", json={"version": 2}, headers=admin)
        after = users.come(200)
        served = http.get("/v1/models/web").json()["version"]

    ratios = exported["propensities"]["ratios"]
    np.testing.assert_allclose(LOOKS[:3], ratios[:3], rtol=0.5)
    assert (500, 0, 0) == (exported["impressions"], exported["damaged"], exported["unmatched"])
    old, new = (one["metrics"][0]["mean"] for one in figures)
    assert new > old + 0.1
    assert new > 0.8
    assert (200, 200, "running") == (begun.status_code, ended.status_code, canary["state"])
    assert canary["arms"]["candidate"]["requests"]["ok"] > 30
    assert 0 == sum(arm["requests"]["error"] for arm in canary["arms"].values())
    parts = [one["experiment"] for one in Logged([log]).impressions() if one["experiment"] is not None]
    assert {"baseline", "candidate"} == {part["arm"] for part in parts}
    assert (200, 2) == (promoted.status_code, served)
    assert after > before + 0.1
