"""Tables of items: published from files, and joined to judged documents by their ids."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from localrank.__main__ import main
from localrank.artifact import load
from localrank.errors import ArtifactNotFound, InvalidData
from localrank.registry.tables import load_items, tables_in
from localrank.registry.versions import Registry
from localrank.tables import generation
from localrank_training.data.items import read_items
from localrank_training.data.reading import read, read_table
from localrank_training.data.tables import Columns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ITEMS = "sku,price,brand,title\na,1.5,nike,one\n007,2.5,kobo,two\nc,,nike,three\n"
JUDGED = {
    "qid": ["q", "q", "q", "r", "r"],
    "label": [2, 1, 0, 1, 0],
    "doc_id": ["a", "007", "x", "c", "a"],
    "bm25": [1.0, 2.0, 3.0, 4.0, 5.0],
}


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with the table ``items``."""
    (tmp_path / "items.csv").write_text(ITEMS)
    asked = ("--id", "sku", "--name", "items", "--ignore", "title", "--models-dir", str(tmp_path / "models"))
    assert 0 == main(["tables", "publish", str(tmp_path / "items.csv"), *asked])
    return tmp_path / "models"


def joined(models: Path, frame: dict[str, Any], **columns: Any) -> tuple[Any, list[str]]:
    said: list[str] = []
    given = Columns(**{"table": "items", "models_dir": str(models), **columns})
    return read_table(pd.DataFrame(frame), columns=given, say=said.append), said


@pytest.mark.parametrize("form", ["csv", "parquet", "json"])
def test_items_are_read_from_every_format_as_they_are(tmp_path: Path, form: str) -> None:
    frame = pd.DataFrame({"sku": ["a", "007"], "n": [1.5, None], "kind": ["x", "y"], "on": [True, False]})
    path = tmp_path / f"items.{form}"
    if form == "csv":
        frame.to_csv(path, index=False)
    elif form == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=True)

    rows = read_items([path], "sku")

    assert ("a", "007") == rows.ids
    assert [("n", "number", ()), ("kind", "category", ("x", "y"))] == [
        (one.name, one.kind, tuple(map(one.value_of, range(one.unseen)))) for one in rows.columns[:2]
    ]
    np.testing.assert_array_equal(np.array([[1.5, 0, 0], [np.nan, 1, 1]], np.float32), rows.values)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sku,x\na,1\nb,2\na,3\n", "row 3: expected every id once, found 'a' again, after"),
        ("sku,x\n", "expected items, found only a header"),
        ("id,x\na,1\n", "expected a column 'sku', found 'id', 'x'; --id chooses another one"),
        ("sku,x\na,1\n,2\n", "row 2"),
        ("sku\na\n", "with the column 'sku' and features, found only the column 'sku'"),
    ],
)
def test_what_is_wrong_with_a_table_of_items_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "items.csv").write_text(text)

    with pytest.raises(InvalidData) as raised:
        read_items([tmp_path / "items.csv"], "sku")

    assert said in str(raised.value)


def test_a_label_is_a_column_of_items_like_others(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("sku,label,qid\na,gold,1\nb,silver,2\n")

    assert ["label", "qid"] == [one.name for one in read_items([tmp_path / "items.csv"], "sku").columns]


def test_an_id_in_two_files_is_named(tmp_path: Path) -> None:
    for name in ("1.csv", "2.csv"):
        (tmp_path / name).write_text(f"sku,x\n{name},1\na,2\n")

    with pytest.raises(
        InvalidData,
        match=r"2\.csv: row 2: expected every id once, found 'a' again, which is also in .*1\.csv",
    ):
        read_items([tmp_path / "1.csv", tmp_path / "2.csv"], "sku")


def test_a_table_is_joined_by_the_ids_of_documents(models: Path) -> None:
    queries, said = joined(models, JUDGED)

    assert ("bm25", "price", "brand") == queries.feature_names
    expected = [[1, 1.5, 0], [2, 2.5, 1], [3, np.nan, np.nan], [4, np.nan, 0], [5, 1.5, 0]]
    np.testing.assert_array_equal(np.array(expected, np.float32), queries.documents)
    assert [None, "items", "items"] == [one.table for one in queries.features]
    brand = queries.features[2]
    assert ["nike", "kobo"] == [brand.value_of(code) for code in range(brand.unseen)]
    assert "1 of 5 documents are not in it" in said[-2]
    assert "the model learns what it will not know" in said[-1]


def test_values_of_the_data_count_before_those_of_the_table(models: Path) -> None:
    own = {**JUDGED, "price": [9.0, None, 7.0, None, 6.0], "brand": ["acme", None, "nike", None, "kobo"]}

    queries, _ = joined(models, own)

    at = {name: column for column, name in enumerate(queries.feature_names)}
    price = queries.documents[:, at["price"]]
    np.testing.assert_array_equal(np.array([9, 2.5, 7, np.nan, 6], np.float32), price)
    brand = queries.special["brand"]
    values = [brand.value_of(code) for code in queries.documents[:, at["brand"]].tolist()]
    assert ["acme", "kobo", "nike", "nike", "kobo"] == values
    assert "items" == brand.table == queries.special["price"].table


def test_a_table_that_has_none_of_the_documents_is_refused(models: Path) -> None:
    with pytest.raises(InvalidData, match="such as 'a', found none of them in 5 documents, but 'x1'"):
        joined(models, {**JUDGED, "doc_id": ["x1", "x2", "x3", "x4", "x5"]})

    _, said = joined(models, {**JUDGED, "doc_id": ["a", "x2", "x3", "x4", "c"]})
    assert any("lacks 60% of the documents" in one for one in said)
    assert not any("warning" in one for one in joined(models, JUDGED)[1])


def test_several_tables_are_joined(models: Path, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("sku,stock\na,1\n007,2\n")
    run(["tables", "publish", str(tmp_path / "more.csv"), "--id", "sku", "--name", "more"], models)

    queries, _ = joined(models, JUDGED, table="items@1,more")

    assert ("bm25", "price", "brand", "stock") == queries.feature_names
    assert [None, "items", "items", "more"] == [one.table for one in queries.features]
    with pytest.raises(InvalidData, match="every table once, found 'items' again"):
        joined(models, JUDGED, table="items,items@1")


def test_data_without_ids_or_with_other_kinds_are_refused(models: Path) -> None:
    without = {name: values for name, values in JUDGED.items() if name != "doc_id"}

    with pytest.raises(InvalidData, match="ids of the documents"):
        joined(models, without)
    with pytest.raises(InvalidData, match="expected numbers as 'price'"):
        joined(models, {**JUDGED, "price": list("xyzxy")})
    with pytest.raises(InvalidData, match="--category brand"):
        joined(models, {**JUDGED, "brand": [1.0] * 5})
    with pytest.raises(InvalidData, match="feature of the query"):
        joined(models, {**JUDGED, "price": [1.0] * 5}, query_feature=("price",))
    with pytest.raises(ArtifactNotFound, match="expected a table 'others'"):
        joined(models, JUDGED, table="others")
    with pytest.raises(ArtifactNotFound, match="expected version 2"):
        joined(models, JUDGED, table="items@2")


def judged(path: Path, queries: int = 30) -> Path:
    chance = np.random.default_rng(0)
    rows = []
    for query in range(queries):
        for item in chance.permutation(["a", "007", "c"]):
            bm25 = float(chance.standard_normal())
            rows.append((f"q{query}", int(bm25 + (item == "007") > 0.3), item, bm25))
    pd.DataFrame(rows, columns=["qid", "label", "doc_id", "bm25"]).to_csv(path, index=False)
    return path


def run(arguments: Sequence[str], models: Path) -> None:
    assert 0 == main([*arguments, "--models-dir", str(models)])


@pytest.mark.slow
def test_a_model_is_trained_evaluated_and_trained_again_with_its_table(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(judged(tmp_path / "judged.csv"))
    run(["train", data, "--table", "items", "--learner", "lambdamart", "--name", "shop"], models)
    run(["evaluate", "shop@1", data, "--json"], models)
    run(["rank", "shop@1", data, "--out", str(tmp_path / "scores.txt")], models)
    run(["train", data, "--like", "shop@1", "--name", "shop"], models)

    said = capsys.readouterr()
    first, again = (load(Registry(models).resolve(f"shop@{number}").path) for number in (1, 2))
    contract = first.ranker.contract
    assert {"items": (1, 2)} == contract.tables
    assert contract.digest == again.ranker.contract.digest
    assert {"table": "items"} == first.manifest.source["asked"]["columns"]
    # Every document has a value here but those of c; documents that are new tomorrow will have none.
    assert ("reject", "nan", "constant") == contract.missing
    items = load_items(contract, models)
    frame = pd.read_csv(data, dtype={"doc_id": str})
    scores = []
    for _, rows in frame.groupby("qid", sort=False):
        found = items.completed(rows[["bm25"]].to_numpy(), rows["doc_id"].tolist())
        scores += first.ranker.rank(found.documents).scores.tolist()
    assert scores == [float(line) for line in (tmp_path / "scores.txt").read_text().splitlines()]
    assert "the model learns what it will not know" in said.err


def test_a_table_in_the_configuration_is_joined_too(models: Path, tmp_path: Path) -> None:
    columns = Columns(models_dir=str(models)).over({"table": "items"}, "[data]")

    queries = read([judged(tmp_path / "judged.csv", 2)], columns=columns)

    assert ("bm25", "price", "brand") == queries.feature_names


def test_generations_are_listed_shown_verified_and_pruned(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish = ["tables", "publish", str(tmp_path / "items.csv"), "--id", "sku", "--name", "items"]
    capsys.readouterr()
    run([*publish, "--json"], models)
    answer = json.loads(capsys.readouterr().out)
    run(["tables", "list", "--json"], models)
    listed = json.loads(capsys.readouterr().out)
    run(["tables", "show", "items@1", "--json"], models)
    shown = json.loads(capsys.readouterr().out)
    run(["tables", "verify", "items", "items@1", "--json"], models)
    verified = json.loads(capsys.readouterr().out)
    run(["tables", "prune", "items", "--keep", "1", "--json"], models)
    pruned = json.loads(capsys.readouterr().out)

    assert ("items", 2, 3, ["price", "brand", "title"]) == tuple(answer.values())
    assert [(1, False, 2), (2, True, 3)] == [
        (one["generation"], one["current"], one["columns"]) for one in listed
    ]
    assert "sku" == shown["manifest"]["source"]["id"]
    assert [2, 1] == [one["generation"] for one in verified]
    assert {"name": "items", "removed": [1], "left": [2]} == pruned
    assert 2 == main(["tables", "prune", "items", "--keep", "0", "--models-dir", str(models)])
    assert 1 == main(["tables", "show", "others", "--models-dir", str(models)])
    assert 2 == main([*publish[:-1], ".hidden", "--models-dir", str(models)])
    assert [("items", 2)] == tables_in(models).published()


@pytest.mark.slow
def test_a_table_follows_its_model_to_a_url_and_back(models: Path, tmp_path: Path) -> None:
    data = str(judged(tmp_path / "judged.csv"))
    run(["train", data, "--table", "items", "--learner", "linear", "--name", "shop", "--promote"], models)
    url, copy = f"file://{tmp_path}/url", tmp_path / "copy"
    run(["models", "push", url, "shop"], models)
    run(["models", "pull", url], copy)
    first = load_items(load(copy / "shop" / "1").ranker.contract, copy).generations
    publish = ["tables", "publish", str(tmp_path / "items.csv"), "--id", "sku", "--name", "items"]
    run(publish, models)
    run(["models", "push", url, "shop"], models)
    run(["models", "pull", url], copy)
    not_yet = tables_in(copy).published()
    run(["tables", "push", url, "items"], models)
    run(["models", "pull", url], copy)

    assert {"items": 1} == first
    assert [("items", 1)] == not_yet
    assert [("items", 1), ("items", 2)] == tables_in(copy).published()
    assert 2 == generation.load(copy / ".tables" / "items" / "2").manifest.version
    values = tmp_path / "url" / ".tables" / "items" / "3"
    run(publish, models)
    run(["tables", "push", url, "items"], models)
    (values / "values.npy").write_bytes(b"")
    assert 1 == main(["models", "pull", url, "--models-dir", str(copy)])
    assert {"items": 2} == load_items(load(copy / "shop" / "1").ranker.contract, copy).generations
