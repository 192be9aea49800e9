"""Generations of tables on disk, and what a model takes from them."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import localrank
from localrank.artifact.arrays import write_array
from localrank.artifact.manifest import compose
from localrank.errors import (
    ArtifactCorrupt,
    ArtifactError,
    ArtifactNotFound,
    ContractMismatch,
    InvalidDocuments,
    PublishFailed,
)
from localrank.features.contract import FeatureContract
from localrank.features.feature import Feature
from localrank.registry.tables import publish, tables_in
from localrank.registry.versions import CHAMPION, Reference
from localrank.tables import generation
from localrank.tables.table import Lookup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("arithmetic")

COLUMNS = (Feature("price"), Feature("brand", "category", ("nike", "kobo")))
ROWS = np.array([[1.5, 0], [np.nan, 1], [2.5, np.nan]], np.float32)
IDS = ["a", "b", "c"]


def published(
    models: Path, ids: Sequence[Any] = IDS, values: Any = ROWS, columns: Sequence[Feature] = COLUMNS
) -> Reference:
    return publish(
        tables_in(models), "items", columns, ids, values, created="2026-01-02T03:04:05Z", source={}
    )


def contract(*features: Feature) -> FeatureContract:
    given = features or (Feature("bm25"), *(replace(one, table="items") for one in COLUMNS))
    rows = np.zeros((2, len(given)), np.float32)
    return FeatureContract.learn(rows, [2], features=given, missing="zero", normalise="none")


def test_what_was_published_is_read(tmp_path: Path) -> None:
    first, second = published(tmp_path), published(tmp_path, ["d"], ROWS[:1])

    found = generation.load(first.path)

    assert ("items", 1, 2) == (first.name, first.version, second.version)
    assert COLUMNS == found.table.columns
    assert [0, 2, -1] == found.table.rows(["a", "c", "d"]).tolist()
    np.testing.assert_array_equal(ROWS, found.table.values)
    assert {CHAMPION: 2} == tables_in(tmp_path).aliases("items")
    assert ("2026-01-02T03:04:05Z", 3) == (found.manifest.created, found.manifest.items)


def test_large_tables_are_mapped_and_kept(tmp_path: Path) -> None:
    ids = [f"item-{number}" for number in range(120_000)]
    values = np.random.default_rng(0).standard_normal((len(ids), 3)).astype(np.float32)
    columns = [Feature(name) for name in "xyz"]
    reference = published(tmp_path, ids, values, columns)
    copy = tmp_path / "copy"
    copy.mkdir()

    read = generation.load(reference.path, keep=copy)
    attached = generation.attach(copy)
    shutil.rmtree(reference.path)

    assert read.kept
    some = [ids[number] for number in range(0, len(ids), 997)]
    for one in (read.table, attached.table):
        rows = one.rows([*some, "item-120000"])
        assert [*range(0, len(ids), 997), -1] == rows.tolist()
        np.testing.assert_array_equal(values[rows[:-1]], one.values[rows[:-1]])


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["a", "b", "a"], "row 3: expected every id once, found 'a' again, after row 1"),
        (["a", "", "b"], "row 2: expected an id of 1 to 1024 bytes, found nothing"),
        (["a", "b", "é" * 513], "row 3: expected an id of 1 to 1024 bytes, found 1026 bytes"),
    ],
)
def test_bad_ids_are_named_by_row(tmp_path: Path, ids: list[str], said: str) -> None:
    with pytest.raises(PublishFailed) as raised:
        published(tmp_path, ids)

    assert said == str(raised.value)
    assert [] == tables_in(tmp_path).published()


@pytest.mark.parametrize("values", [[[np.inf, 0]], [[1, 2]], [[1, 0.5]], [[1, -1]]])
def test_values_that_are_none_are_not_published(tmp_path: Path, values: Any) -> None:
    with pytest.raises(PublishFailed, match=r"values\.npy"):
        published(tmp_path, ["a"], np.array(values, np.float32))


def rewritten(folder: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    """Change arrays and members, and give the manifest the right digests: as somebody who means harm would."""
    manifest = json.loads((folder / "manifest.json").read_text())
    arrays = {name: np.load(folder / name) for name in manifest["files"]}
    change(manifest, arrays)
    for name in list(folder.iterdir()):
        name.unlink()
    manifest["files"] = {name: write_array(folder / name, array).to_json() for name, array in arrays.items()}
    members = {name: one for name, one in manifest.items() if name not in {"format_version", "sha256"}}
    (folder / "manifest.json").write_bytes(compose(members, generation.MEMBERS))


def other(name: str, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(manifest: dict[str, Any], _arrays: dict[str, Any]) -> None:
        manifest[name] = value

    return change


def array(name: str, made: Callable[[Any], Any]) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(_manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[name] = made(arrays[name])

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (other("key", "0" * 32), "slots.npy"),
        (other("key", "zz"), "key"),
        (other("items", 2), "ends.npy"),
        (other("items", -1), "items"),
        (other("columns", []), "columns"),
        (other("columns", [{"name": "x", "kind": "number"}] * 2), "columns"),
        (other("columns", [{"name": "x", "kind": "text"}, {"name": "y", "kind": "number"}]), "columns: 0"),
        (
            other(
                "columns", [{"name": "x", "kind": "number", "values": ["a"]}, {"name": "y", "kind": "number"}]
            ),
            "columns: 0",
        ),
        (
            other(
                "columns",
                [{"name": "x", "kind": "number"}, {"name": "y", "kind": "category", "values": ["a", "a"]}],
            ),
            "columns: 1",
        ),
        (
            other(
                "columns",
                [{"name": "x", "kind": "number"}, {"name": "y", "kind": "category", "values": ["a"]}],
            ),
            "values.npy: column 'y'",
        ),
        (array("slots.npy", lambda old: old[::-1].copy()), "slots.npy"),
        (array("slots.npy", np.zeros_like), "slots.npy"),
        (array("slots.npy", lambda old: np.full_like(old, 2**32 - 1)), "slots.npy"),
        (array("ends.npy", lambda old: old[::-1].copy()), "ends.npy"),
        (array("ends.npy", lambda old: old + np.uint32(1)), "ends.npy"),
        (array("ends.npy", lambda old: old.astype(np.int64)), "ends.npy"),
        (array("ids.npy", lambda old: np.concatenate([old, old])), "ends.npy"),
        (array("values.npy", lambda old: old[:2]), "values.npy"),
        (
            array("values.npy", lambda old: np.where(np.isnan(old), np.inf, old).astype(np.float32)),
            "values.npy",
        ),
        (array("values.npy", lambda old: old.astype(np.float64)), "values.npy"),
        (lambda _, arrays: arrays.update(more=np.zeros(1)), "more"),
        (lambda _, arrays: arrays.update({"more.npy": np.zeros(1)}), "more.npy"),
        (lambda _, arrays: arrays.pop("slots.npy"), "slots.npy"),
    ],
)
def test_a_generation_that_lies_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None], said: str
) -> None:
    reference = published(tmp_path)
    rewritten(reference.path, change)

    with pytest.raises(ArtifactCorrupt, match=said.replace(".", r"\.")):
        generation.load(reference.path)


def test_two_ids_that_are_the_same_are_refused_when_read(tmp_path: Path) -> None:
    """A table with right slots, but the id of two rows."""
    reference = published(tmp_path, ["aa", "bb", "cc"])

    def twice(manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
        from localrank.tables.ids import hashes, key_of, packed, slots_of

        texts = packed(["aa", "bb", "aa"])
        arrays["ids.npy"] = texts.content
        arrays["slots.npy"] = slots_of(hashes(key_of(manifest["key"]), texts))

    rewritten(reference.path, twice)

    with pytest.raises(ArtifactCorrupt, match="one twice"):
        generation.load(reference.path)


@pytest.mark.parametrize("name", ["ids.npy", "ends.npy", "slots.npy", "values.npy", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "gone", "linked"])
def test_damaged_files_are_refused(tmp_path: Path, name: str, damage: str) -> None:
    reference = published(tmp_path)
    path = reference.path / name
    content = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(content[:-1])
    elif damage == "flipped":
        path.write_bytes(content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])
    elif damage == "linked":
        (tmp_path / "elsewhere").write_bytes(content)
        os.link(tmp_path / "elsewhere", path)

    with pytest.raises(ArtifactError):
        generation.load(reference.path)


def test_documents_are_completed_by_id(tmp_path: Path) -> None:
    published(tmp_path)
    made = contract()

    items = localrank.load_items(made, tmp_path)
    found = items.completed([[1.0], [2.0], [3.0], [4.0]], ["b", "a", None, "x"])

    expected = [[1, np.nan, 1], [2, 1.5, 0], [3, np.nan, np.nan], [4, np.nan, np.nan]]
    np.testing.assert_array_equal(np.array(expected, np.float32), found.documents)
    assert ({"items": 2}, {"items": 1}) == (found.unknown, items.generations)
    whole = items.completed(np.array([[1, 9, np.nan]], np.float32), ["a"]).documents
    np.testing.assert_array_equal(np.array([[1, 9, 0]], np.float32), whole)
    with pytest.raises(InvalidDocuments, match="an id for each of 1"):
        items.completed([[1.0]], ["a", "b"])


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ([[0.1, 2.0], [np.nan, 3.0]], "expected 1 or 3 features per document, found 2"),
        (np.zeros((2, 0), np.float32), "expected 1 or 3 features per document, found 0"),
        (np.zeros((2, 50), np.float32), "expected 1 or 3 features per document, found 50"),
        (np.zeros((2, 3, 1), np.float32), r"found shape \(2, 3, 1\)"),
        ([0.1, 0.2], "expected a row of values for document 0, found 0.1"),
        ({"bm25": [0.1, 0.2]}, "expected rows or a frame as documents, found a dictionary"),
    ],
)
def test_documents_of_another_width_are_refused(tmp_path: Path, documents: Any, said: str) -> None:
    published(tmp_path)
    items = localrank.load_items(contract(), tmp_path)

    with pytest.raises(InvalidDocuments, match=said):
        items.completed(documents, ["a", "x"])
    assert (0, 3) == items.completed([], []).documents.shape


def test_a_generation_that_was_rolled_back_is_not_taken_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from localrank.__main__ import main

    def run(*arguments: str) -> str:
        assert 0 == main(["tables", *arguments, "--models-dir", str(tmp_path)])
        return capsys.readouterr().out

    def taken() -> int:
        return localrank.load_items(contract(), tmp_path).generations["items"]

    for _ in range(3):
        published(tmp_path)
    assert "items: generation 2 is looked into\n" == run("rollback", "items")
    assert 2 == taken()
    assert '"current": 1' in run("promote", "items", "1", "--json")
    assert 1 == taken()
    shutil.rmtree(tmp_path / ".tables" / "items" / "1")
    with pytest.raises(ArtifactNotFound, match="localrank tables rollback items goes back"):
        tables_in(tmp_path).resolve("items")
    with pytest.raises(
        ArtifactError, match="table items, generation 1: its files are gone; localrank tables"
    ):
        taken()
    run("rollback", "items")
    assert 2 == taken()
    assert 4 == published(tmp_path).version


def test_the_number_of_a_generation_that_was_deleted_is_not_given_again(tmp_path: Path) -> None:
    published(tmp_path)
    shutil.rmtree(published(tmp_path, ["d"], ROWS[:1]).path)

    assert 3 == published(tmp_path, ["e"], ROWS[:1]).version


def test_categories_get_the_codes_of_the_model(tmp_path: Path) -> None:
    published(tmp_path)
    brand = Feature("brand", "category", ("other", "kobo"), table="items")
    made = contract(Feature("bm25"), brand, Feature("price", table="items"))

    found = localrank.load_items(made, tmp_path).completed([[0.0]] * 3, IDS).documents

    # nike is unseen, kobo has the code 1, and c has no brand.
    np.testing.assert_array_equal(np.array([2, 1, np.nan], np.float32), found[:, 1])
    np.testing.assert_array_equal(ROWS[:, 0], found[:, 2])


def test_the_newest_generation_that_fits_is_taken(tmp_path: Path) -> None:
    published(tmp_path)
    published(tmp_path, ["a"], ROWS[:1, :1], COLUMNS[:1])
    third = published(tmp_path, ["a"], ROWS[:1])
    (third.path / "values.npy").write_bytes(b"")

    assert {"items": 1} == localrank.load_items(contract(), tmp_path).generations
    price = contract(Feature("bm25"), replace(COLUMNS[0], table="items"))
    assert {"items": 2} == localrank.load_items(price, tmp_path).generations


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactNotFound, match="'items'"):
        localrank.load_items(contract(), tmp_path)


def test_a_table_without_items_knows_none(tmp_path: Path) -> None:
    reference = published(tmp_path, [], ROWS[:0])

    assert [-1, -1] == generation.load(reference.path).table.rows(["a", 1]).tolist()


def test_a_table_that_does_not_fit_says_what_was_expected(tmp_path: Path) -> None:
    table = generation.load(published(tmp_path).path).table
    wrong = contract(Feature("bm25"), Feature("weight", table="items"))

    with pytest.raises(ContractMismatch) as raised:
        Lookup.of(table, wrong)

    assert (
        "table items, generation 1: expected the columns that the model was trained with, found none called 'weight', but 'price', 'brand'"
        == str(raised.value)
    )


def test_the_contract_says_what_is_from_a_table_and_reads_back() -> None:
    made = contract()

    members = made.to_json()

    assert {"price": "table:items", "brand": "table:items"} == members["from"]
    again = FeatureContract.from_json(members)
    assert (made.digest, {"items": (1, 2)}, (1, 2)) == (again.digest, again.tables, again.looked_up)
    plain = contract(Feature("bm25"), *COLUMNS)
    assert "from" not in plain.to_json()
    assert plain.digest != made.digest


@pytest.mark.parametrize("origin", ["items", "table:", "table:../x", 3, "table:.hidden"])
def test_a_contract_with_another_origin_is_refused(origin: Any) -> None:
    members = contract().to_json()
    members["from"]["price"] = origin

    with pytest.raises(ValueError, match="contract"):
        FeatureContract.from_json(members)
