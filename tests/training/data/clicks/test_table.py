"""Logs of clicks that are tables: any columns, any format, UBI's events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from localrank.__main__ import main
from localrank_training import read

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "query,product,rank,click,price,brand"
#: Two lists of shoes, which begin where the places start again, and one of hats; the last row was not shown.
ROWS = """shoes,a,1,0,10,x
shoes,b,2,1,20,y
shoes,c,3,1,30,
shoes,b,1,0,20,y
shoes,a,2,0,10,x
hats,d,1,1,5,z
hats,e,2,0,6,z
hats,f,,0,7,z
""".splitlines()
NAMED = ["--qid", "query", "--id", "product", "--position", "rank", "--clicked", "click"]


def rows_of(path: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = pa.parquet.read_table(path).to_pylist()
    return found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text("\n".join([HEADER, *ROWS]))
    return path


def test_each_list_with_a_click_is_a_query_and_other_columns_stay(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "judged.parquet"

    assert 0 == main(["data", "clicks", str(log), "--out", str(out), *NAMED])

    assert [
        ("shoes#1", "a", 0.0, 1, 10, "x"),
        ("shoes#1", "b", 1.0, 2, 20, "y"),
        ("shoes#1", "c", 1.0, 3, 30, ""),
        ("hats#3", "d", 1.0, 1, 5, "z"),
        ("hats#3", "e", 0.0, 2, 6, "z"),
    ] == [
        (one["qid"], one["doc_id"], one["label"], one["position"], one["price"], one["brand"] or "")
        for one in rows_of(out)
    ]
    printed = capsys.readouterr().out
    assert "2 queries, 5 documents, from 3 lists with 3 clicks" in printed
    assert "1 lists without a click: left out" in printed
    assert "1 rows without a place: left out" in printed
    queries = read([out])
    assert [1, 2, 3, 1, 2] == (queries.positions.tolist() if queries.positions is not None else None)


def test_with_propensities_each_click_is_a_query_with_its_weight(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "judged.parquet"

    assert 0 == main(
        [
            "data",
            "clicks",
            str(log),
            "--out",
            str(out),
            *NAMED,
            "--propensities",
            "power:1",
            "--max-weight",
            "2.5",
        ]
    )

    found = [(one["qid"], one["doc_id"], one["label"], one["weight"]) for one in rows_of(out)]
    assert found == [
        ("shoes#1:2", "a", 0.0, 2.0),
        ("shoes#1:2", "b", 1.0, 2.0),
        ("shoes#1:3", "a", 0.0, 2.5),
        ("shoes#1:3", "c", 1.0, 2.5),
        ("hats#3:1", "d", 1.0, 1.0),
        ("hats#3:1", "e", 0.0, 1.0),
    ]
    weights = read([out]).weights
    assert weights is not None
    assert [2.0, 2.5, 1.0] == weights.tolist()


def test_every_format_says_the_same(log: Path, tmp_path: Path) -> None:
    table = pa.csv.read_csv(log)
    pa.parquet.write_table(table, tmp_path / "log.parquet")
    pa.feather.write_feather(table, tmp_path / "log.arrow", compression="uncompressed")
    (tmp_path / "log.jsonl").write_text("\n".join(json.dumps(one) for one in table.to_pylist()))

    for name in ("log.csv", "log.parquet", "log.arrow", "log.jsonl"):
        assert 0 == main(
            ["data", "clicks", str(tmp_path / name), "--out", str(tmp_path / f"{name}.parquet"), *NAMED]
        )

    first, *others = (
        [
            (one["qid"], one["doc_id"], one["label"], one["price"])
            for one in rows_of(tmp_path / f"{name}.parquet")
        ]
        for name in ("log.csv", "log.parquet", "log.arrow", "log.jsonl")
    )
    assert 5 == len(first)
    assert all(first == other for other in others)


@pytest.mark.parametrize("first", [0, 1])
def test_events_of_ubi_are_joined(first: int, tmp_path: Path) -> None:
    def event(action: str, search: str, document: str, place: int | None = None) -> dict[str, object]:
        position = {} if place is None else {"position": {"ordinal": place}}
        return {
            "action_name": action,
            "query_id": search,
            "user_query": "shoes",
            "event_attributes": {"object": {"object_id": document}, **position},
        }

    events = [event("impression", "s1", "a", first), event("impression", "s1", "b", first + 1)]
    events += [event("click", "s1", "b"), event("impression", "s2", "b", first), event("hover", "s2", "b")]
    events += [event("impression", "s2", "a", first + 1), event("click", "s2", "b")]
    (tmp_path / "plain.jsonl").write_text("\n".join(map(json.dumps, events)))
    (tmp_path / "wrapped.jsonl").write_text("\n".join(json.dumps({"_source": one}) for one in events))

    for name in ("plain", "wrapped"):
        out = tmp_path / f"{name}.parquet"
        assert 0 == main(["data", "clicks", str(tmp_path / f"{name}.jsonl"), "--out", str(out)])
        assert [
            ("shoes#1", "a", 0.0, 1),
            ("shoes#1", "b", 1.0, 2),
            ("shoes#2", "b", 1.0, 1),
            ("shoes#2", "a", 0.0, 2),
        ] == [(one["qid"], one["doc_id"], one["label"], one["position"]) for one in rows_of(out)]


def shop(path: Path, looks: list[float], *, lists: int = 20_000, seed: int = 0) -> str:
    """Write a log of the position-based model; better products stand higher, and every list differs a little."""
    rng = np.random.default_rng(seed)
    attraction = rng.uniform(0.1, 0.7, (300, len(looks)))
    lines = ["qid,list,id,position,clicked"]
    for number, query in enumerate(rng.integers(0, 300, lists).tolist()):
        order = np.argsort(-(attraction[query] + 0.2 * rng.standard_normal(len(looks))))
        clicked = rng.random(len(looks)) < np.array(looks) * attraction[query, order]
        lines += [
            f"q{query},{number},d{document},{place},{int(one)}"
            for place, (document, one) in enumerate(zip(order, clicked, strict=True), 1)
        ]
    path.write_text("\n".join(lines))
    return str(path)


def test_propensities_are_estimated_from_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    looks = [1.0, 0.6, 0.4, 0.3]
    log, out, places = shop(tmp_path / "log.csv", looks), tmp_path / "judged.csv", tmp_path / "places.json"
    clicks = ["data", "clicks", log, "--id", "id", "--list", "list", "--out", str(out)]

    assert 0 == main([*clicks, "--propensities", "em", "--write-propensities", str(places), "--json"])

    answer = json.loads(capsys.readouterr().out)
    np.testing.assert_allclose(looks, answer["propensities"]["ratios"], rtol=0.1)
    assert f"localrank train {out} --weight weight --position position" == answer["next"]
    assert 0 == main([*clicks, "--overwrite", "--propensities", str(places)])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--position", "place"], "expected a column 'place' (--position), found 'query', 'product', 'rank'"),
        (["--clicked", "rank"], "expected a different column for each of"),
        (["--clicked", "brand"], "column 'brand': expected numbers, found string"),
        (
            ["--propensities", "em"],
            "propensities: expected enough clicks on documents that stood at several places",
        ),
        (["--out", "judged.txt"], "--out: expected a name in .parquet or .csv, found judged.txt"),
    ],
)
def test_what_is_wrong_is_said(
    change: list[str], said: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(log.with_name("judged.parquet"))

    assert 0 != main(["data", "clicks", str(log), "--out", out, *NAMED, *change])

    assert said in capsys.readouterr().err


def test_one_place_only_and_places_from_0_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = tmp_path / "log.csv", str(tmp_path / "judged.parquet")
    log.write_text("qid,id,position,clicked\n" + "\n".join(f"q{n},d{n % 3},1,{n % 2}" for n in range(50)))
    clicks = ["data", "clicks", str(log), "--id", "id", "--out", out]

    assert 1 == main([*clicks, "--propensities", "em"])
    assert "at the first place and at other places, and were clicked, found" in capsys.readouterr().err
    log.write_text("qid,id,position,clicked\nq,d,0,1\n")
    assert 1 == main(clicks)
    assert (
        "row 1, column 'position': expected a place counted from 1, or nothing, found 0"
        in capsys.readouterr().err
    )
    log.write_text("qid,id,position,clicked\nq,d,1,0\n")
    assert 1 == main(clicks)
    assert "expected clicks, found none in 1 lists of 1 documents" in capsys.readouterr().err
