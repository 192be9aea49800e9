from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from localrank.__main__ import main
from localrank.artifact import Provenance
from localrank.features.contract import FeatureContract
from localrank.points.representation import NoRepresentation
from localrank.ranker import Ranker
from localrank.registry.versions import Registry
from localrank.routing.router import GlobalRouter
from localrank.scorers import LinearScorer

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_command_prints_or_writes_the_body(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = np.eye(3, dtype=np.float32)
    contract = FeatureContract.learn(
        documents, [3], names=["a", "b", "c"], missing="median", normalise="none"
    )
    ranker = Ranker(contract, NoRepresentation(), GlobalRouter(), (), LinearScorer(np.array([1.0, 2.0, 3.0])))
    registry = Registry(tmp_path)
    registry.publish("web", ranker, Provenance("2026-01-31T12:00:00Z", {}, [documents]))
    where = ["--models-dir", str(tmp_path)]

    assert 0 == main(["models", "export", "web", "--to", "elasticsearch", "--name", "mine", *where])
    out, err = capsys.readouterr()
    assert {"a": 1.0, "b": 2.0, "c": 3.0} == json.loads(json.loads(out)["model"]["model"]["definition"])
    assert "mine" == json.loads(out)["model"]["name"]
    assert "the model replaces missing values (median), but the engine does not" in err

    file = tmp_path / "web.json"
    assert 0 == main(["models", "export", "web", "--to", "solr", "--out", str(file), *where])
    assert {"a": 1.0, "b": 2.0, "c": 3.0} == json.loads(file.read_text())["params"]["weights"]
    assert file.read_text().startswith('{\n "class": ')
    assert f"wrote web@1 for solr to {file}\n" == capsys.readouterr().out

    assert 0 == main(["models", "export", "web", "--to", "opensearch", "--out", str(file), "--json", *where])
    said = json.loads(capsys.readouterr().out)
    assert ("web@1", "opensearch", str(file)) == (said["model"], said["to"], said["file"])
    assert any("but the engine does not" in note for note in said["notes"])
    # Its name there is that of the model, unless another one is given.
    assert "web" == json.loads(file.read_text())["model"]["name"]

    assert 1 == main(["models", "export", "web", "--to", "vespa", *where])
    assert "expected trees for Vespa, found weights" in capsys.readouterr().err
    assert 2 == main(["models", "export", "web", "--to", "lucene", *where])
    assert "expected one of elasticsearch, opensearch, solr, vespa, found 'lucene'" in capsys.readouterr().err
