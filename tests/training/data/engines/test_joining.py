"""Judgements of every tool and responses of every engine become one table; what does not match is said.

The forms were read in public code and documentation: Quepid (o19s/quepid 48e23b4, app/views/api/v1/export/ratings: show.basic.csv,
show_ltr.txt, show_trec.txt, _rre_query.json), RRE (SeaseLtd/rated-ranking-evaluator a718c89, ratings_example.json), OpenSearch's
documentation of Search Relevance Workbench, and UBI's events. None of these tools has been asked.
"""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from localrank.__main__ import main
from localrank_training.data.reading import read
from localrank_training.data.tables import Columns

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Features by query, document; each a number that is no float32.
VALUES = {
    "red shoes": {"d1": 1.1, "d2": 0.3, "d3": 7.7},
    "50% off #1": {"d1": 2.2, "d9": 1e-3},
}
GRADES = {"red shoes": {"d1": 2.0, "d2": 0.0}, "50% off #1": {"d9": 3.0, "d1": 1.0}}


def of_elastic(values: dict[str, float]) -> dict[str, Any]:
    hits = [
        {
            "_id": name,
            "_score": 1.0,
            "matched_queries": {"bm25": one, "brand": 0.0},
            "_source": {"price": {"now": 4}},
        }
        for name, one in values.items()
    ]
    return {"hits": {"hits": hits}}


def of_opensearch(values: dict[str, float]) -> dict[str, Any]:
    log = {name: [{"e": [{"name": "bm25", "value": one}, {"name": "brand"}]}] for name, one in values.items()}
    return {"hits": {"hits": [{"_id": name, "fields": {"_ltrlog": one}} for name, one in log.items()]}}


def of_solr(values: dict[str, float]) -> dict[str, Any]:
    docs = [{"id": name, "[features]": f"bm25={one!r},brand=NaN"} for name, one in values.items()]
    return {"response": {"docs": docs}}


def of_vespa(values: dict[str, float]) -> dict[str, Any]:
    children = [{"id": name, "fields": {"matchfeatures": {"bm25": one}}} for name, one in values.items()]
    return {"root": {"children": children}}


ENGINES = {"elasticsearch": of_elastic, "opensearch": of_opensearch, "solr": of_solr, "vespa": of_vespa}
WORKBENCH = {
    "type": "IMPORT_JUDGMENT",
    "judgmentRatings": [
        {
            "query": query,
            "ratings": [{"docId": name, "rating": f"{grade:.3f}"} for name, grade in some.items()],
        }
        for query, some in GRADES.items()
    ],
}
#: Files of judgements: what they are called, and whether they name queries by id.
JUDGEMENTS: dict[str, tuple[str, bool]] = {
    "quepid.csv": (
        "query,docid,rating\nnobody judged\n"
        + "".join(f"{query},{name},{grade:g}\n" for query, some in GRADES.items() for name, grade in some.items()),
        False,
    ),
    "raters.tsv": (
        "grade\tdocument\tquery\trater\n"
        + "".join(f"{grade}\t{name}\t{query}\tx\n" for query, some in GRADES.items() for name, grade in some.items()),
        False,
    ),
    "quepid_ltr.txt": (
        "\n".join(
            f"{grade:g} qid:{at} # {name} {query}\n"
            for at, (query, some) in enumerate(GRADES.items())
            for name, grade in some.items()
        ),
        True,
    ),
    "qrels.txt": (
        "".join(
            f"{at} 0 {name} {int(grade) or -1}\n"
            for at, some in enumerate(GRADES.values())
            for name, grade in some.items()
        ),
        True,
    ),
    "judged.jsonl": (
        "".join(
            json.dumps({"query_id": at, "doc_id": name, "grade": grade}) + "\n"
            for at, some in enumerate(GRADES.values())
            for name, grade in some.items()
        ),
        True,
    ),
    "workbench.json": (json.dumps(WORKBENCH, indent=1), False),
    "workbench_answer.json": (json.dumps({"hits": {"hits": [{"_id": "1", "_source": WORKBENCH}]}}), False),
    "rre.json": (
        json.dumps(
            {
                "id_field": "id",
                "topics": [
                    {
                        "description": "all",
                        "query_groups": [
                            {
                                "queries": [{"template": "q.json", "placeholders": {"$query": query}}],
                                "relevant_documents": {name: {"gain": grade} for name, grade in some.items()},
                            }
                            for query, some in GRADES.items()
                        ],
                    }
                ],
            }
        ),
        False,
    ),
    "quepid_rre.json": (
        json.dumps(
            {
                "id_field": "id",
                "queries": [
                    {
                        "placeholders": {"$query": query},
                        "relevant_documents": {f"{grade:g}": [name] for name, grade in some.items()},
                    }
                    for query, some in GRADES.items()
                ],
            },
            indent=2,
        ),
        False,
    ),
}  # fmt: skip


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "judged.csv").write_text(JUDGEMENTS["quepid.csv"][0])
    return tmp_path


@pytest.fixture
def joined(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Join, and return what ``--json`` says."""

    def run(
        *more: str, judgements: str = "judged.csv", out: str = "out.parquet", code: int = 0
    ) -> dict[str, Any]:
        asked = ["--judgements", judgements, "--responses", "responses.jsonl", "--out", out, "--json", *more]
        assert code == main(["data", "join", *asked]), capsys.readouterr().err
        printed = capsys.readouterr()
        found: dict[str, Any] = json.loads(printed.out) if code == 0 else {}
        return found | {"err": printed.err}

    return run


def stored(path: Path, engine: str = "elasticsearch", **more: Any) -> None:
    """Write the responses to all queries, one line each."""
    lines = [
        {"query_id": at, "query": query, "response": ENGINES[engine](some)} | more
        for at, (query, some) in enumerate(VALUES.items())
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def rows(path: Path | str, **columns: Any) -> dict[tuple[str, str], tuple[float, float]]:
    """The label and the first feature of each document, as training reads them."""
    found = read([path], columns=Columns(**columns))
    assert found.comments is not None
    ids = np.array(found.query_ids)[found.query_of]
    keys = zip(ids.tolist(), list(found.comments), strict=True)
    return dict(
        zip(keys, zip(found.labels.tolist(), found.documents[:, 0].tolist(), strict=True), strict=True)
    )


def expected(*names: str) -> dict[tuple[str, str], tuple[float, float]]:
    """The same from the values above."""
    return {
        (name, document): (grade, float(np.float32(VALUES[query][document])))
        for name, (query, some) in zip(names, GRADES.items(), strict=True)
        for document, grade in some.items()
    }


TEXTS = "red%20shoes", "50%25%20off%20%231"


@pytest.mark.parametrize("file", JUDGEMENTS)
def test_judgements_of_every_tool_are_read(
    at: Path, joined: Callable[..., dict[str, Any]], file: str
) -> None:
    text, by_id = JUDGEMENTS[file]
    (at / file).write_text(text)
    stored(at / "responses.jsonl")

    said = joined(judgements=file)

    assert expected(*(("0", "1") if by_id else TEXTS)) == rows("out.parquet")
    assert (2, 4, 4) == (said["queries"], said["documents"], said["judged"]["documents"])
    assert {"count": 1, "examples": [f"{'0' if by_id else 'red shoes'}: d3"]} == said["not_judged"]
    assert (file == "quepid.csv") == said["judged"]["unrated"]


def test_quepid_s_text_names_the_query_for_responses_without_its_id(
    at: Path, joined: Callable[..., dict[str, Any]]
) -> None:
    (at / "ltr.txt").write_text(JUDGEMENTS["quepid_ltr.txt"][0])
    stored(at / "responses.jsonl", query_id=None)

    joined(judgements="ltr.txt")

    assert expected("0", "1") == rows("out.parquet")


@pytest.mark.parametrize(
    ("judgements", "value"),
    [
        ("query,docid,rating\n2,d4,1\n", 3.0),
        ("query_text,query_id,docid,rating\n2,9,d4,1\n", 3.0),
        ("qid,docid,rating\n2,d4,1\n", 2.0),
        ("2 0 d4 1\n", 2.0),
        ("1 qid:2 # d4 2\n", 2.0),
        ('{"query": 2, "docid": "d4", "rating": 1}\n', 3.0),
    ],
)
def test_ids_and_texts_of_queries_are_kept_apart(
    at: Path, joined: Callable[..., dict[str, Any]], judgements: str, value: float
) -> None:
    (at / "judged.csv").write_text(judgements)
    (at / "responses.jsonl").write_text(
        line(of_elastic({"d4": 3.0}), query_id="3", query="2")
        + "\n"
        + line(of_elastic({"d4": 2.0}), query_id="2", query="apple")
    )

    joined()

    assert {("2", "d4"): (1.0, value)} == rows("out.parquet")


def test_a_number_that_is_a_text_elsewhere_is_named(at: Path, joined: Callable[..., dict[str, Any]]) -> None:
    stored(at / "responses.jsonl")
    text = (at / "responses.jsonl").read_text()
    (at / "responses.jsonl").write_text(text.replace("0.001", '"n/a"'))

    said = joined(out="out.csv")["err"]

    assert "note: the feature 'bm25' is a number in 3 of 4 documents and \"n/a\" in responses.jsonl:2" in said
    assert "document 'd9'; it becomes a category" in said


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("out", ["out.parquet", "out.csv", "out.txt", "out.txt.gz", "out.arrow"])
def test_responses_of_every_engine_become_every_format(
    at: Path, joined: Callable[..., dict[str, Any]], engine: str, out: str
) -> None:
    stored(at / "responses.jsonl", engine)

    said = joined(out=out, judgements="judged.csv")

    assert expected(*TEXTS) == rows(out)
    assert "bm25" == said["features"][0]
    assert f"localrank train {out}" == said["next"]


def test_fields_scores_and_features_of_the_query_are_columns(
    at: Path, joined: Callable[..., dict[str, Any]]
) -> None:
    stored(at / "responses.jsonl", query_features={"hour": 14, "segment": "mobile"})

    joined(
        "--fields",
        "price.now",
        "--score-feature",
        "engine",
        "--sources",
        "matched_queries,_source",
        out="out.csv",
    )

    table = pd.read_csv("out.csv")
    assert [{"price.now": 4.0, "engine": 1.0, "hour": 14.0, "segment": "mobile"}] * 4 == table[
        ["price.now", "engine", "hour", "segment"]
    ].to_dict("records")


@pytest.mark.parametrize(("more", "value"), [((), None), (("--missing-as-zero",), 0.0)])
def test_what_a_hit_does_not_hold_is_missing_or_zero(
    at: Path, joined: Callable[..., dict[str, Any]], more: tuple[str, ...], value: float | None
) -> None:
    hits = of_elastic(VALUES["red shoes"])["hits"]["hits"]
    del hits[1]["matched_queries"]
    line = {"query": "red shoes", "response": {"hits": {"hits": hits}}}
    (at / "responses.jsonl").write_text(json.dumps(line))

    joined(*more, out="out.csv")

    found = pd.read_csv("out.csv").set_index("doc_id")["bm25"]
    assert 1.1 == found["d1"]
    assert (value is None and np.isnan(found["d2"])) or value == found["d2"]


def test_what_does_not_match_is_counted_and_named(at: Path, joined: Callable[..., dict[str, Any]]) -> None:
    (at / "judged.csv").write_text(
        "query,docid,rating\nred shoes,d1,1\nred shoes,gone,2\nhats,d1,1\nhats,d2,\n"
    )
    lines = [
        {"query": "red shoes", "response": of_elastic({"d1": 9.0})},
        {"query": "coats", "response": of_elastic({"d1": 9.0})},
        {"query": "red shoes", "response": of_elastic(VALUES["red shoes"])},
    ]
    (at / "responses.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n\n")

    said = joined()

    assert {("red%20shoes", "d1"): (1.0, float(np.float32(1.1)))} == rows("out.parquet")
    assert {
        "without_response": {"count": 1, "examples": ["hats"]},
        "without_judgement": {"count": 1, "examples": ["coats"]},
        "not_returned": {"count": 1, "examples": ["red shoes: gone"]},
        "not_judged": {"count": 2, "examples": ["red shoes: d2", "red shoes: d3"]},
        "without_relevant": {"count": 0, "examples": []},
        "judged": {"queries": 2, "documents": 3, "unrated": 1},
        "responses": {"read": 3, "repeated": 1, "bad": [], "hits_without_id": 0},
    } == {name: one for name, one in said.items() if type(one) is dict}


def test_unjudged_documents_may_be_irrelevant(at: Path, joined: Callable[..., dict[str, Any]]) -> None:
    stored(at / "responses.jsonl")

    joined("--unjudged", "zero")

    assert {**expected(*TEXTS), ("red%20shoes", "d3"): (0.0, float(np.float32(7.7)))} == rows("out.parquet")


def test_the_engine_s_order_is_a_run(at: Path, joined: Callable[..., dict[str, Any]]) -> None:
    stored(at / "responses.jsonl")

    said = joined("--run", "engine.run", out="out.csv")

    assert [
        "red%20shoes Q0 d1 1 3 engine",
        "red%20shoes Q0 d2 2 2 engine",
        "red%20shoes Q0 d3 3 1 engine",
        "50%25%20off%20%231 Q0 d1 1 2 engine",
        "50%25%20off%20%231 Q0 d9 2 1 engine",
    ] == (at / "engine.run").read_text().splitlines()
    assert "localrank train out.csv --baseline engine.run" == said["next"]


def event(action: str, query: str, document: str, place: int | None) -> dict[str, Any]:
    attributes = {"object": {"object_id": document}, "position": {"ordinal": place}}
    return {
        "action_name": action,
        "query_id": query,
        "user_query": "red shoes",
        "event_attributes": attributes,
    }


@pytest.mark.parametrize("corrected", [False, True])
def test_events_of_users_are_lists_of_clicks(
    at: Path, joined: Callable[..., dict[str, Any]], *, corrected: bool
) -> None:
    events = [event("impression", query, f"d{place}", place) for query in "abc" for place in (1, 2)]
    events += [
        event("click", "a", "d2", None),
        event("click", "b", "d1", None),
        event("impression", "b", "gone", 3),
    ]
    events += [event("impression", "d", "gone", 1), event("click", "d", "gone", None)]
    (at / "ubi_events.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))
    stored(at / "responses.jsonl")

    said = joined(
        *(("--propensities", "power:1") if corrected else ()), judgements="ubi_events.jsonl", out="out.csv"
    )

    table = pd.read_csv("out.csv")
    assert [("d1", 0, 1), ("d2", 1, 2), ("d1", 1, 1), ("d2", 0, 2)] == [
        *table[["doc_id", "label", "position"]].itertuples(index=False, name=None)
    ]
    assert VALUES["red shoes"]["d2"] == table["bm25"][1]
    # A click on the second place counts twice, because half as many users look there.
    assert ([2.0, 2.0, 1.0, 1.0] if corrected else None) == (
        table["weight"].tolist() if "weight" in table else None
    )
    assert (2, 1) == (said["queries"], said["without_relevant"]["count"])
    weight = " --weight weight" if corrected else ""
    assert f"localrank train out.csv{weight} --position position" == said["next"]


def test_the_id_may_stand_elsewhere(at: Path, joined: Callable[..., dict[str, Any]]) -> None:
    hits = [
        {"_id": at, "_score": 1, "matched_queries": {"bm25": one}, "fields": {"sku": [name]}}
        for at, (name, one) in enumerate(VALUES["red shoes"].items())
    ]
    line = {"query": "red shoes", "response": {"hits": {"hits": [*hits, {"_score": 1}]}}}
    (at / "responses.jsonl").write_text(json.dumps(line))

    said = joined("--id", "fields.sku")

    assert {("red%20shoes", "d1"), ("red%20shoes", "d2")} == rows("out.parquet").keys()
    assert 1 == said["responses"]["hits_without_id"]
    assert "the first that was returned is '0'" in joined("--overwrite", code=1)["err"]


def test_a_line_that_cannot_be_read_is_named_or_left_out(
    at: Path, joined: Callable[..., dict[str, Any]]
) -> None:
    stored(at / "whole")
    text = (at / "whole").read_bytes()
    (at / "responses.jsonl").write_bytes(gzip.compress(text + b'{"query": "x", "respo'))

    refused, said = joined(code=1), joined("--skip-bad-lines")

    assert "responses.jsonl:3: expected JSON" in refused["err"]
    assert (2, 1) == (said["responses"]["read"], len(said["responses"]["bad"]))
    assert "left out: responses.jsonl:3: expected JSON" in said["err"]


HIT = {"_id": "d1", "matched_queries": {"bm25": 1}}


def test_an_ending_that_is_not_written_is_one_sentence(
    at: Path, joined: Callable[..., dict[str, Any]]
) -> None:
    stored(at / "responses.jsonl")

    err = joined(out="out.xlsx", code=1)["err"]

    assert (
        "out.xlsx: expected a name in .csv, .txt, .txt.gz, .txt.zst, .parquet or .arrow, found .xlsx" in err
    )


def line(response: Any, **more: Any) -> str:
    return json.dumps({"query": "red shoes", "response": response} | more)


def hits(*some: Any) -> dict[str, Any]:
    return {"hits": {"hits": [*some]}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("7", ":1: expected a JSON object, found 7"),
        ('{"query": "a", "query": "b"}', "member 'query' stands twice"),
        ('{"query": NaN}', "NaN is no number"),
        ('{"a":' * 100_000, "nested too deeply"),
        (line(hits(), query=None), "expected query, the text of the search, or query_id, found null"),
        (line([]), "response: expected an object, found a list"),
        (line(hits(), query_features=[1]), "query_features: expected an object, found [1]"),
        (line({"error": "x"}), "expected hits (Elasticsearch, OpenSearch), response (Solr) or root (Vespa)"),
        (line({"hits": {"hits": {}}}), "response.hits.hits: expected a list of hits, found an object"),
        (line(hits(HIT, 7)), ":1: hit 2: expected an object, found 7"),
        (line(hits(HIT | {"_id": 1.5})), ":1: hit 1: _id: expected a text or an integer, found 1.5"),
        (line(hits({"_id": "d1"})), ":1: hit 1 has no logged features; log them"),
        (
            line(hits(HIT | {"fields": {"bm25": [1]}})),
            "hit 1: feature 'bm25' stands in matched_queries and in fields",
        ),
        (
            line(hits({"_id": "d1", "matched_queries": {"bm25": [1, 2]}})),
            "feature 'bm25': expected a finite number",
        ),
        (line(hits({"_id": "d1", "matched_queries": {"bm25": 1e999}})), "is no number"),
        (
            line(hits({"_id": "d1", "matched_queries": {"bm25": 10**400}})),
            ":1: hit 1: feature 'bm25': expected a finite number",
        ),
        (
            line(hits({"_id": "d1", "matched_queries": {"label": 1}})),
            "the feature 'label' has the name of a column",
        ),
        (
            line(hits(HIT), query="hats"),
            "expected a response to a judged query, such as 'red shoes', found none",
        ),
        (
            line(hits(HIT | {"_id": "other"})),
            "expected judged documents among those that were returned, such as 'd1'",
        ),
    ],
)
def test_what_is_wrong_with_responses_is_one_sentence(
    at: Path, joined: Callable[..., dict[str, Any]], text: str, said: str
) -> None:
    (at / "responses.jsonl").write_text(text + "\n")

    err = joined("--fields", "bm25", code=1)["err"]

    assert said in err
    assert 1 == err.count("\n")
    assert not (at / "out.parquet").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "judgements:1: expected a column query or query_text or query_id or qid (--query)"),
        ("query,docid,rating\nq,d,high\n", 'judgements:2: expected a rating of at least 0, found "high"'),
        ("query,docid,rating\nq,d,-1\n", "judgements:2: expected a rating of at least 0"),
        (
            "query,docid,rating\nq,d,1\nq,d,2\n",
            "judgements:3: document 'd' of query 'q' has the rating 2; expected 1",
        ),
        ("query,docid,rating\nq,d,1,7\n", "judgements:2: expected 3 cells, found 4"),
        ('query,docid,rating\nq,"d"x,1\n', "judgements:2: expected ',' between cells"),
        ("query,docid,rating\nq,d,\n", "expected judgements, found none (1 documents without a rating)"),
        ("1 qid:1 # d text\n2 qid:2\n", "judgements:2: expected RATING qid:QUERY # DOCUMENT TEXT"),
        ("1 0 d 2\n1 0 d\n", "judgements:2: expected QUERY ITERATION DOCUMENT LABEL"),
        (
            '{"query": "q", "docid": "d", "rating": 1}\n{"query": "q"}',
            "judgements:2: expected a column docid or",
        ),
        ('{"query": "q", "docid": 1.5, "rating": 1}', "judgements:1: docid: expected text, found 1.5"),
        ('{"a": 1}', "expected judgmentRatings (OpenSearch), topics"),
        (
            '{"judgmentRatings": [{"query": "q", "ratings": [{"docId": "d"}]}]}',
            "found another form: KeyError('rating')",
        ),
        ('{"queries": [7]}', "found another form"),
        ('{"judgmentRatings": ', "expected JSON"),
    ],
)
def test_what_is_wrong_with_judgements_is_one_sentence(
    at: Path, joined: Callable[..., dict[str, Any]], text: str, said: str
) -> None:
    (at / "judgements").write_text(text)
    stored(at / "responses.jsonl")

    err = joined(judgements="judgements", code=1)["err"]

    assert said in err
    assert 1 == err.count("\n")
