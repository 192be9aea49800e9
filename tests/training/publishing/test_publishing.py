from __future__ import annotations

import platform
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.artifact import load, read_manifest
from localrank.registry.versions import Registry
from localrank_training.data.queries import Skipped
from localrank_training.data.reading import read
from localrank_training.data.writing import write
from localrank_training.journal import fingerprint
from localrank_training.publishing.publish import described, publish
from localrank_training.report.figures import report_of
from localrank_training.run.train import train
from localrank_training.settings.config import TrainingConfig
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.run.train import Trained

QUERIES = two_kinds(4)


@pytest.mark.parametrize("file", ["data.txt", "data.txt.gz", "data.parquet"])
def test_the_same_data_have_the_same_fingerprint_in_any_format(file: str, tmp_path: Path) -> None:
    write(QUERIES, tmp_path / file)

    assert fingerprint(QUERIES) == fingerprint(read([tmp_path / file]))


@pytest.mark.parametrize(
    "change",
    [
        {"documents": np.where(np.arange(300).reshape(60, 5) == 7, 0, QUERIES.documents)},
        {"labels": np.roll(QUERIES.labels, 1)},
        {"offsets": QUERIES.offsets + np.array([0, 1, 0, 0, 0])},
        {"query_ids": ("q0", "q1", "q2", "q4")},
        {"feature_names": ("f1", "f2", "f3", "f4", "bm25")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_differs_changes_the_fingerprint(change: dict[str, Any]) -> None:
    assert fingerprint(QUERIES) != fingerprint(replace(QUERIES, **change))


def test_every_portion_and_every_weight_count(monkeypatch: pytest.MonkeyPatch) -> None:
    weighted = replace(QUERIES, weights=np.array([1.0, 2.0, 1.0, 1.0]))
    plain = fingerprint(QUERIES)
    monkeypatch.setattr("localrank_training.journal.CELLS", 5 * 7)

    assert plain == fingerprint(QUERIES)
    assert 3 == len({plain, fingerprint(weighted), fingerprint(replace(QUERIES, weights=np.ones(4)))})
    assert len("sha256:") + 64 == len(plain)


def test_queries_are_described_by_what_was_read() -> None:
    skipped = (Skipped("bad.txt", "expected a number"),)
    weighted = replace(QUERIES, weights=np.ones(4))

    assert described(QUERIES) == {
        "fingerprint": fingerprint(QUERIES),
        "queries": 4,
        "documents": 60,
        "features": 5,
    }
    assert described(weighted)["weighted"] is True
    assert [one._asdict() for one in skipped] == described(replace(QUERIES, skipped=skipped))["skipped"]


@pytest.fixture(scope="module")
def trained() -> Trained:
    tables = {"clustering": {"clusters": 2}, "representation": {"components": 1}, "learner": {"C": 1.0}}
    return train(two_kinds(), TrainingConfig.from_tables({"contract": {"normalise": "none"}, **tables}))


@pytest.mark.parametrize("validated", [False, True])
def test_a_version_says_where_it_comes_from(tmp_path: Path, trained: Trained, *, validated: bool) -> None:
    queries, validation = two_kinds(), two_kinds(6, seed=1)
    report = report_of(trained)

    reference = publish(
        Registry(tmp_path),
        "web",
        trained,
        queries,
        validation=validation if validated else None,
        created="2026-01-31T12:00:00Z",
    )

    manifest = read_manifest(reference.path)
    source = manifest.source
    assert ("web", 1, "2026-01-31T12:00:00Z") == (manifest.name, manifest.version, manifest.created)
    assert {"training": described(queries)} | (
        {"validation": described(validation)} if validated else {}
    ) == source["data"]
    assert trained.config.to_json() == source["configuration"]
    assert [trial.to_json() for trial in trained.trials] == source["trials"]
    assert {"localrank", "numpy", "scipy", "scikit-learn", "lightgbm"} == source["libraries"].keys()
    assert (np.__version__, platform.python_version()) == (source["libraries"]["numpy"], source["python"])
    assert "plan" not in source
    assert [one.size for one in report.clusters] == [one.size for one in manifest.clusters]
    assert report.metrics_json()["figures"] == [pytest.approx(row) for row in manifest.metrics["figures"]]
    # The rows of the probe: one of its lists is a part of another.
    drawn_from = {row.tobytes() for one in (validation if validated else queries).lists for row in one}
    probed = load(reference.path).probe.documents
    assert {row.tobytes() for one in probed for row in one} <= drawn_from


def test_a_version_without_a_date_is_of_now(tmp_path: Path, trained: Trained) -> None:
    before = datetime.now(UTC).replace(microsecond=0)

    reference = publish(Registry(tmp_path), "web", trained, two_kinds(), report=report_of(trained))

    created = datetime.fromisoformat(read_manifest(reference.path).created)
    assert before <= created <= datetime.now(UTC)
