"""The text of a manifest, and the limits of its entries."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from localrank.artifact.manifest import FORMAT_VERSION, Cluster, FileEntry, compose, seal
from localrank.errors import ArtifactCorrupt, PublishFailed

DIGEST = "0" * 63 + "f"


def lines_of(members: dict[str, Any]) -> list[str]:
    """Return the lines of a manifest without the one that holds its digest."""
    return [line for line in compose(members).decode().splitlines() if '"sha256"' not in line]


def test_a_member_has_a_line_if_the_whole_does_not_fit_one() -> None:
    assert lines_of({"name": "é", "version": 3}) == [
        "{",
        f'  "format_version": {FORMAT_VERSION},',
        '  "name": "é",',
        '  "version": 3',
        "}",
    ]


def test_members_stand_in_the_order_of_the_format_and_others_are_left_out() -> None:
    written = json.loads(compose({"files": {}, "version": 1, "name": "web", "unheard": 1}))

    assert ["format_version", "sha256", "name", "version", "files"] == list(written)


@pytest.mark.parametrize(("length", "lines"), [(100, 1), (101, 4)])
def test_an_object_of_a_hundred_characters_fits_a_line(length: int, lines: int) -> None:
    source = {"a": "", "b": 1}
    source["a"] = "x" * (length - len(json.dumps(source)))
    head = lines_of({"source": {}})

    found = lines_of({"source": source})

    assert length == len(json.dumps(source))
    assert len(head) + lines - 1 == len(found)
    assert source == json.loads(compose({"source": source}))["source"]


def test_long_lists_of_numbers_and_long_texts_stay_on_their_line() -> None:
    numbers, text = list(range(100, 160)), "x" * 200

    assert lines_of({"name": text, "notes": numbers})[2:-1] == [
        f'  "name": "{text}",',
        f'  "notes": {json.dumps(numbers)}',
    ]


def test_a_long_list_of_lists_or_objects_has_a_line_for_each() -> None:
    rows = [{"query": "q" * 40, "rank": rank} for rank in range(3)]

    assert lines_of({"metrics": {"rows": rows}})[2:-1] == [
        '  "metrics": {',
        '    "rows": [',
        *(f"      {json.dumps(row)}{',' if row is not rows[-1] else ''}" for row in rows),
        "    ]",
        "  }",
    ]


def test_what_numpy_hands_in_is_written_as_its_values() -> None:
    metrics = {"mean": np.float64(0.5), "counts": np.array([1, 2]), "flag": np.bool_(1), "pair": (1, 2)}

    written = json.loads(compose({"metrics": metrics}))["metrics"]

    assert written == {"mean": 0.5, "counts": [1, 2], "flag": True, "pair": [1, 2]}


@dataclass
class Foreign:
    value: int


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Foreign(1), {1}])
def test_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(PublishFailed, match=r"^manifest\.json: expected values that JSON can hold"):
        compose({"metrics": {"a": value}})


def test_the_digest_is_that_of_the_text_with_zeros_in_its_place() -> None:
    sealed = seal(f'{{"sha256": "{DIGEST}", "other": "{DIGEST}"}}')

    digest = hashlib.sha256(f'{{"sha256": "{"0" * 64}", "other": "{DIGEST}"}}'.encode()).hexdigest()
    assert f'{{"sha256": "{digest}", "other": "{DIGEST}"}}' == sealed.decode()
    with pytest.raises(ValueError, match="without a place"):
        seal('{"sha256": "0"}')


ENTRY: dict[str, Any] = {"sha256": DIGEST, "size": 2**63 - 1, "dtype": "float32", "shape": [0] * 8}


@pytest.mark.parametrize("name", ["a.npy", "_.npy", "0.a-b_c.npy", "a" * 200 + ".npy"])
def test_an_entry_at_its_limits_reads_back(name: str) -> None:
    entry = FileEntry.from_json(name, ENTRY)

    assert FileEntry(DIGEST, 2**63 - 1, "float32", (0,) * 8) == entry
    assert ENTRY == entry.to_json()


@pytest.mark.parametrize(
    "name", ["A.npy", ".npy", "a.np", "a/b.npy", "-a.npy", "a" * 201 + ".npy", "a.npy\n", "..npy"]
)
def test_other_names_of_files_are_refused(name: str) -> None:
    with pytest.raises(ArtifactCorrupt, match="expected a plain file name"):
        FileEntry.from_json(name, ENTRY)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sha256": DIGEST[1:]}, "expected sha256 in 64"),
        ({"sha256": DIGEST.upper()}, "expected sha256 in 64"),
        ({"sha256": 1}, "expected sha256 in 64"),
        ({"size": 2**63}, "expected a size"),
        ({"size": -1}, "expected a size"),
        ({"size": True}, "expected a size"),
        ({"size": 1.0}, "expected a size"),
        ({"dtype": None}, "expected a dtype"),
        ({"shape": [0] * 9}, "expected a shape of at most 8"),
        ({"shape": [-1]}, "expected a shape of at most 8"),
        ({"shape": "8"}, "expected a shape of at most 8"),
        ({"more": 1}, "expected sha256, size, dtype and shape"),
    ],
)
def test_an_entry_beyond_its_limits_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ArtifactCorrupt, match=message):
        FileEntry.from_json("a.npy", ENTRY | change)


@pytest.mark.parametrize("exemplar", [None, "q7"])
def test_a_cluster_reads_back(exemplar: str | None) -> None:
    members = {"size": 0, "exemplar": exemplar, "validation": {"ndcg@10": 0.5}}

    cluster = Cluster.from_json(3, members)

    assert Cluster(0, exemplar, {"ndcg@10": 0.5}) == cluster
    assert members == cluster.to_json()
    assert {} == Cluster(1).to_json()["validation"]


@pytest.mark.parametrize(
    "change", [{"size": -1}, {"size": True}, {"exemplar": 7}, {"validation": None}, {"more": 1}]
)
def test_a_cluster_that_is_none_is_refused_by_its_position(change: dict[str, Any]) -> None:
    with pytest.raises(ArtifactCorrupt, match="cluster 3: expected size, exemplar and validation"):
        Cluster.from_json(3, {"size": 1, "exemplar": None, "validation": {}} | change)
