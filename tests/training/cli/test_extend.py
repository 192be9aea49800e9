"""What ``localrank extend`` asks for and says; how a model grows is tested in tests/training/test_extending.py."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from localrank.__main__ import main
from localrank.registry import Reference
from localrank_training.data.columns import Columns
from tests.training.cli.calls import Calls


class Queries:
    """So many queries of ten documents."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.n_docs = 10 * count

    def __len__(self) -> int:
        return self._count


class Grown:
    """What `localrank_training.extending.extend` answers."""

    def __init__(self, joined: list[int], alone: int = 0, near: float | None = 0.5) -> None:
        self.joined = np.array(joined)
        self.clusters = np.r_[np.repeat(np.arange(len(joined)), joined), np.full(alone, -1)]
        self.near, self.usual = near, None if near is None else 0.75
        self.notes = ("a note",)

    def to_json(self) -> dict[str, Any]:
        return {"joined": self.joined.tolist()}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    made = Calls(monkeypatch)
    clusters = [SimpleNamespace(size=20), SimpleNamespace(size=7)]
    artifact = SimpleNamespace(
        ranker=SimpleNamespace(contract=SimpleNamespace(n_features=6)),
        manifest=SimpleNamespace(clusters=clusters),
    )
    compared = SimpleNamespace(
        metric="map", candidate=0.5, baseline=0.25, difference=0.25, interval_text="[0.1, 0.4]"
    )
    retrained = SimpleNamespace(
        queries=8, tau=0.8125, comparisons=(compared,), to_json=lambda: {"queries": 8}
    )
    made.answer("localrank.registry.Registry.resolve", Reference("web", 3, Path("models/web/3")))
    made.answer("localrank.registry.Registry.check_publishable", None)
    made.answer("localrank.registry.Registry.promote", None)
    made.answer("localrank.artifact.load", artifact)
    made.answer("localrank_training.data.reading.read", Queries(5))
    made.answer("localrank_training.extending.extend", Grown([3, 1], alone=1))
    made.answer("localrank_training.extending.publish_extended", Reference("web", 4, Path("models/web/4")))
    made.answer("localrank_training.extending.against_retraining", retrained)
    made.answer("localrank_training.parallel.available_cores", 3)
    return made


def test_new_queries_are_read_joined_and_published(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["extend", "web@3", "a", "b", "--models-dir", "my models"])

    assert ["resolve", "check_publishable", "load", "read", "extend", "publish_extended"] == calls.order
    assert ("web",) == calls.given["check_publishable"][0]
    assert (Path("models/web/3"),) == calls.given["load"][0]
    assert (["a", "b"],) == calls.given["read"][0]
    assert {"n_features": 6, "columns": Columns()} == calls.options("read")
    assert {"again": False} == calls.options("extend")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:6] == [
        "5 queries, 50 documents",
        "cluster  queries before  joined",
        "      0              20       3",
        "      1               7       1",
        "1 joined no cluster, because they have one document or only equal ones",
        "median similarity to the most similar training query: 0.500; among the training queries themselves: 0.750",
    ]
    assert "a note" == lines[6]
    assert lines[8].startswith("published web version 4 in models/web/4, ")
    assert "to serve it: localrank models promote web 4 --models-dir 'my models'" == lines[9]
    assert 10 == len(lines)


def test_options_reach_the_work(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    columns = [
        "--label",
        "l",
        "--qid",
        "q",
        "--id",
        "i",
        "--ignore",
        "a,b",
        "--sparse",
        "--learned-from",
        "old",
        "--again",
        "--promote",
    ]

    assert 0 == main(["extend", "web", "a", *columns])

    assert ("old",) == calls.given["read"][0]
    assert calls.options("read") == {
        "n_features": 6,
        "columns": Columns("l", "q", "i", ignore=("a", "b"), sparse=True),
    }
    assert {"again": True} == calls.options("extend")
    assert {"workers": 3} == calls.options("against_retraining")
    assert ("web", 4) == calls.given["promote"][0]
    said = capsys.readouterr().out
    assert (
        "compared with a model retrained on everything, on 8 new queries that neither model has seen\n"
        in said
    )
    assert ["map", "0.5000", "0.2500", "+0.2500", "[0.1,", "0.4]"] in [
        line.split() for line in said.splitlines()
    ]
    assert "their orders agree with Kendall's tau 0.812 in the mean\n" in said
    assert "to serve it" not in said
    assert 0 == main(["extend", "web", "a", "--learned-from", "old", "--workers", "2"])
    assert {"workers": 2} == calls.options("against_retraining")


@pytest.mark.parametrize(
    ("options", "promoted", "retrained"),
    [([], False, None), (["--promote", "--learned-from", "old"], True, {"queries": 8})],
)
def test_json_has_what_was_made(
    calls: Calls,
    options: list[str],
    promoted: bool,
    retrained: dict[str, int] | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert 0 == main(["extend", "web", "a", "--json", *options])

    answer = json.loads(capsys.readouterr().out)
    assert 0 <= answer.pop("seconds") < 60
    assert answer == {
        "model": "web",
        "version": 4,
        "from": 3,
        "promoted": promoted,
        "joined": [3, 1],
        "retrained": retrained,
    }
    assert promoted == ("promote" in calls.given)


@pytest.mark.parametrize(("clusters", "line"), [(20, None), (21, "2 joined 2 of 21 clusters")])
def test_many_clusters_are_summed_up(
    calls: Calls, clusters: int, line: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    artifact = SimpleNamespace(
        ranker=SimpleNamespace(contract=SimpleNamespace(n_features=6)),
        manifest=SimpleNamespace(clusters=[SimpleNamespace(size=2)] * clusters),
    )
    calls.answer("localrank.artifact.load", artifact)
    joined = [0] * (clusters - 2) + [1, 1]
    calls.answer("localrank_training.extending.extend", Grown(joined, near=None))

    assert 0 == main(["extend", "web", "a"])

    said = capsys.readouterr().out.splitlines()
    assert (line is None) == ("cluster  queries before  joined" in said)
    assert line is None or line == said[1]
    assert not [one for one in said if "joined no cluster" in one or "median similarity" in one]
