"""From the log of a service to files that training reads."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from localrank.__main__ import main
from localrank.errors import InvalidConfiguration, InvalidData
from localrank.journal import Logged, file_name
from localrank_training.data.clicks.export import export
from localrank_training.data.clicks.joining import Which, join, tally
from localrank_training.data.clicks.propensities import Propensities
from localrank_training.data.reading import read
from localrank_training.data.tables import AS_NAMED, Columns
from tests.training.data.clicks.log import Log

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.data.queries import QuerySet


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def labels(queries: QuerySet) -> dict[str, list[float]]:
    return {name: queries.labels_of(query).tolist() for query, name in enumerate(queries.query_ids)}


def test_an_impression_becomes_a_query_in_the_order_shown(log: Log) -> None:
    log.show("r1", [2, 0, 1])
    log.say("r1", id="d0", click=True)
    log.show("r2", [0, 1])

    joined = join(Logged([log.folder]))

    assert {"r1": [0, 1, 0]} == labels(joined.queries)
    assert [[4, 5], [0, 1], [2, 3]] == joined.queries.documents.tolist()
    assert ("bm25", "age") == joined.queries.feature_names
    assert joined.queries.positions is not None
    assert [1, 2, 3] == joined.queries.positions.tolist()
    assert joined.queries.weights is None
    assert (2, 1, 1, 0) == (joined.impressions, joined.unjudged, joined.clicks, joined.grades)


def test_a_grade_beats_a_click_and_the_last_grade_counts(log: Log) -> None:
    log.show("r1", [0, 1, 2])
    log.say("r1", id="d0", grade=3)
    log.say("r1", id="d0", click=True)
    log.say("r1", index=0, grade=2)
    log.say("r1", index=1, click=True)

    assert {"r1": [2, 5, 0]} == labels(join(Logged([log.folder]), click_label=5).queries)


def test_an_event_that_is_sent_again_counts_once(log: Log) -> None:
    log.show("r1", [0, 1])
    log.say("r1", id="d0", grade=1, event_id="e1")
    log.say("r1", id="d0", grade=4, event_id="e2")
    log.say("r1", id="d0", grade=1, event_id="e1")

    joined = join(Logged([log.folder]))

    assert {"r1": [4, 0]} == labels(joined.queries)
    assert (2, 1) == (joined.events, joined.repeated_events)


def test_documents_without_judgement_may_be_left_out(log: Log) -> None:
    log.show("r1", [2, 1, 0])
    log.say("r1", id="d0", grade=0)
    log.say("r1", id="d2", grade=2)

    queries = join(Logged([log.folder]), rest="drop").queries

    assert {"r1": [2, 0]} == labels(queries)
    assert queries.positions is not None
    assert [1, 3] == queries.positions.tolist()


def test_documents_that_were_not_shown_are_left_out_unless_somebody_judged_them(log: Log) -> None:
    log.show("r1", [3, 2, 1, 0], shown=2)
    log.say("r1", id="d3", click=True)
    log.say("r1", id="d0", grade=1)

    queries = join(Logged([log.folder])).queries

    assert {"r1": [1, 0, 1]} == labels(queries)
    assert queries.positions is not None
    assert [1, 2, 0] == queries.positions.tolist()


def test_what_belongs_to_nothing_is_counted(log: Log) -> None:
    log.show("r1", [0, 1])
    log.show("r1", [1, 0])
    log.show("r1", [1, 0], query=1, degraded={"rung": "global", "reason": "timeout"})
    log.say("r1", id="d1", click=True)
    log.say("r1", id="d1", click=True, query=1)
    log.say("r1", id="d7", click=True)
    log.say("r9", id="d0", click=True)

    joined = join(Logged([log.folder]))

    assert {"r1": [0, 1], "r1/1": [1, 0]} == labels(joined.queries)
    assert (2, 1, 2, 1) == (joined.impressions, joined.repeated, joined.unmatched, joined.degraded)


def test_with_propensities_each_click_is_a_query_with_its_weight(log: Log) -> None:
    """Joachims, Swaminathan and Schnabel (2017), equation 5: each click counts one over its propensity."""
    log.show("r1", [2, 0, 1, 3])
    log.say("r1", id="d0", click=True)
    log.say("r1", id="d3", click=True)
    ratios = Propensities(np.array([1.0, 0.5, 0.25, 0.02]), 4, "test")

    queries = join(Logged([log.folder]), propensities=ratios, max_weight=10).queries

    assert {"r1:2": [0, 1, 0], "r1:4": [0, 0, 1]} == labels(queries)
    assert queries.weights is not None
    assert [1 / 0.5, 10] == queries.weights.tolist()


def test_corrected_clicks_agree_with_what_users_prefer() -> None:
    """The weighted number of pairs in which one document is better has the expectation of attraction alone."""
    rng = np.random.default_rng(0)
    looks, attraction = np.array([1.0, 0.3]), np.array([0.4, 0.6])
    weighted, plain = np.zeros(2), np.zeros(2)
    for _ in range(40_000):
        clicked = rng.random(2) < looks * attraction
        weighted += clicked / looks
        plain += clicked

    assert plain[0] > plain[1]
    np.testing.assert_allclose(attraction, weighted / 40_000, atol=0.02)


def test_models_of_other_features_are_exported_one_at_a_time(log: Log) -> None:
    log.show("r1", [0, 1])
    log.show("r2", [1, 0], model="other", contract="d", features=np.ones((2, 3), "<f4"))
    log.say("r1", id="d1", click=True)
    log.say("r2", id="d1", click=True)

    with pytest.raises(
        InvalidData, match=r"model 'other' has other features.*export one model at a time: --model NAME"
    ):
        join(Logged([log.folder]))
    other = join(Logged([log.folder]), which=Which("other"))
    assert (("f1", "f2", "f3"), 0) == (other.queries.feature_names, other.unmatched)


def test_what_was_answered_in_between_is_exported_with_feedback_that_came_later(log: Log) -> None:
    for request in ("r1", "r2", "r3"):
        log.show(request, [0, 1], time={"r1": 99.9, "r2": 100.0, "r3": 200.0}[request])
    for request in ("r1", "r2", "r3"):
        log.say(request, id="d1", click=True, time=500.0)

    joined = join(Logged([log.folder]), which=Which(since=100.0, until=200.0))

    assert {"r2": [0, 1]} == labels(joined.queries)
    assert (1, 0) == (joined.impressions, joined.unmatched)


def test_times_are_dates_in_utc_unless_they_say_otherwise(
    log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    noon = dt.datetime(2026, 10, 1, 12, tzinfo=dt.UTC).timestamp()
    for request, time in (("before", noon - 1), ("at", noon), ("after", noon + 3600)):
        log.show(request, [0, 1], time=time)
        log.say(request, id="d1", click=True)
    out = log.folder / "out.parquet"
    command = ["data", "export", str(log.folder), "--out", str(out), "--overwrite"]

    for since, until, expected in (
        ("2026-10-01T12:00", "2026-10-01T13:00", ("at",)),
        ("2026-10-01T14:00+02:00", None, ("at", "after")),
        ("2026-10-01", "2026-10-02", ("before", "at", "after")),
    ):
        assert 0 == main([*command, "--since", since, *([] if until is None else ["--until", until])])
        assert expected == read([out]).query_ids
    capsys.readouterr()
    assert 2 == main([*command, "--since", "yesterday"])
    assert "--since: expected a date such as 2026-10-01" in capsys.readouterr().err
    assert 2 == main([*command, "--since", "2026-10-02", "--until", "2026-10-01"])
    assert "expected a time after --since 2026-10-02, found 2026-10-01" in capsys.readouterr().err


def test_a_log_without_judgements_is_refused(log: Log) -> None:
    log.show("r1", [0, 1])

    with pytest.raises(InvalidData, match="the log has 1 impressions and 0 events"):
        join(Logged([log.folder]))


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.txt", "out.txt.gz"])
def test_what_is_written_reads_back(log: Log, name: str) -> None:
    log.show("r1", [1, 0, 2], features=np.array([[0.1, np.nan], [1e-9, 2], [3, 4]], "<f4"))
    log.say("r1", id="d2", grade=2)
    out = log.folder / name

    written = export([log.folder], out).joined.queries
    found = read([out], columns=Columns(position="position") if name.endswith(".csv") else AS_NAMED)

    np.testing.assert_array_equal(written.documents, found.documents)
    assert (labels(written), written.feature_names) == (labels(found), found.feature_names)
    if name.endswith((".csv", ".parquet")):
        assert found.positions is not None
        assert [1, 2, 3] == found.positions.tolist()


@pytest.mark.parametrize("name", ["out.parquet", "out.csv"])
def test_weights_are_written(log: Log, name: str) -> None:
    log.show("r1", [1, 0])
    log.say("r1", id="d0", click=True)
    out = log.folder / name

    export([log.folder], out, propensities="power:2")
    csv = Columns(weight="weight", position="position")
    found = read([out], columns=csv if name.endswith(".csv") else AS_NAMED)

    assert found.weights is not None
    assert [4.0] == found.weights.tolist()


def test_what_cannot_be_written_is_refused_first(log: Log) -> None:
    log.show("r1", [1, 0])
    log.say("r1", id="d0", click=True)

    with pytest.raises(InvalidData, match="expected a format that keeps query weights"):
        export([log.folder], log.folder / "out.txt", propensities="em")
    with pytest.raises(InvalidConfiguration, match="expected --unjudged zero, found drop"):
        export([log.folder], log.folder / "out.csv", propensities="em", rest="drop")
    with pytest.raises(InvalidConfiguration, match="--max-weight: expected a number above 0, found 0"):
        export([log.folder], log.folder / "out.csv", max_weight=0)
    with pytest.raises(InvalidData, match="expected em, power:ETA or a file, found none"):
        export([log.folder], log.folder / "out.csv", propensities="none")
    (log.folder / "out.csv").write_text("mine")
    with pytest.raises(InvalidData, match="--overwrite replaces it"):
        export([log.folder], log.folder / "out.csv")
    assert "mine" == (log.folder / "out.csv").read_text()


def test_the_command_says_what_became_of_the_log(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    log.show("r1", [1, 0])
    log.show("r2", [0, 1])
    log.say("r1", id="d0", click=True)
    with log.path.open("ab") as file:
        file.write(b"\x93LRJ half")
    out, places = log.folder / "out.parquet", log.folder / "places.json"
    command = ["data", "export", str(log.folder), "--out", str(out), "--propensities", "power:1"]

    assert 0 == main([*command, "--write-propensities", str(places)])
    text = capsys.readouterr().out
    assert "1 query, 2 documents, 2 features, from 2 impressions with 1 click and 0 grades" in text
    assert "1 impression without feedback: left out" in text
    assert "1 file cut off in the middle of a record" in text
    assert [1, 0.5] == json.loads(places.read_text())["ratios"][:2]

    assert 0 == main([*command[:-1], str(places), "--overwrite", "--json"])
    figures = json.loads(capsys.readouterr().out)
    assert (1, 2, 1, 1) == (figures["queries"], figures["impressions"], figures["unjudged"], figures["torn"])
    assert 1 == main(["data", "export", str(log.folder / "none"), "--out", str(out), "--overwrite"])


def test_places_are_compared_by_documents_of_the_same_query(log: Log) -> None:
    """By id, and without ids by features; a query without a name is not known again."""
    features = np.array([[1, 2], [3, 4]], "<f4")
    log.show("r1", [0, 1])
    log.show("r2", [1, 0])
    log.show("r3", [0, 1], ids=None, features=features)
    log.show("r4", [0, 1], ids=None, features=features[::-1].copy())
    log.show("r5", [0, 1], query_id=None)
    log.say("r2", id="d1", click=True)

    pairs, places, shown, clicks = tally(Logged([log.folder])).arrays()

    assert [0, 0, 1, 1, 2, 2, 3, 3] == sorted(pairs.tolist())
    assert ([1.0] * 8, 1) == (shown.tolist(), int(clicks.sum()))
    assert 0 == places[clicks == 1]


def test_csv_has_a_row_for_each_document(log: Log) -> None:
    """Empty cells are missing values, and places of documents that were not shown."""
    log.show("r1", [1, 0], shown=1, features=np.array([[0.5, np.nan], [2, 3]], "<f4"))
    log.say("r1", id="d0", grade=2)
    log.say("r1", id="d1", click=True)
    plain, weighted = log.folder / "plain.csv", log.folder / "weighted.csv"

    export([log.folder], plain)
    export([log.folder], weighted, propensities="power:1")

    assert [
        "label,qid,position,bm25,age",
        "1.0,r1,1,2.0,3.0",
        "2.0,r1,,0.5,",
    ] == plain.read_text().splitlines()
    assert [
        "label,qid,weight,position,bm25,age",
        "1.0,r1,1.0,1,2.0,3.0",
        "2.0,r1,1.0,,0.5,",
    ] == weighted.read_text().splitlines()


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_categories_of_several_versions_are_written_as_values(
    name: str, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each version has its own codes; a value that none knew is missing, as is no value."""
    for contract, values in (("v1", ["42", "nike"]), ("v2", ["nike", "42", "kobo"])):
        log._write(
            {
                "kind": "contract",
                "contract": contract,
                "names": ["brand", "segment"],
                "categories": {"brand": values},
                "of_query": ["segment"],
            }
        )
    log.show("r1", [0, 1], contract="v1", features=np.array([[0, 7], [1, 7]], "<f4"))
    log.show("r2", [0, 1], contract="v2", features=np.array([[1, 8], [2, 8]], "<f4"))
    log.show("r3", [0, 1, 2], contract="v2", features=np.array([[3, 8], [np.nan, 8], [0, 8]], "<f4"))
    for request in ("r1", "r2", "r3"):
        log.say(request, id="d0", click=True)
    out = log.folder / name

    assert 0 == main(["data", "export", str(log.folder), "--out", str(out)])

    said = capsys.readouterr().out
    assert "1 value of categories that the model did not know, which the log does not hold: missing" in said
    told = re.search(r"train with: localrank train \S+ (.*)", said)
    assert told is not None
    columns = Columns(category=("brand",), query_feature=("segment",), position="position")
    assert told[1] == columns.options().strip() or name.endswith(".parquet")
    queries = read([str(out)], columns=columns)
    brand, segment = (queries.features[queries.feature_names.index(one)] for one in ("brand", "segment"))
    codes = queries.documents[:, queries.feature_names.index("brand")].tolist()
    assert ["42", "nike", "42", "kobo", None, None, "nike"] == [brand.value_of(code) for code in codes]
    assert ("category", "query") == (brand.kind, segment.scope)


def test_what_is_asked_for_reaches_the_queries(log: Log) -> None:
    for request, model, time in (("r1", "web", 10.0), ("r2", "web", 20.0), ("r3", "shop", 20.0)):
        log.show(request, [0, 1, 2], model=model, time=time)
        log.say(request, id="d2", click=True)
    out = log.folder / "out.parquet"

    chosen = export([log.folder], out, which=Which("web", since=15.0), rest="drop", click_label=4.0).joined
    assert ("r2",) == chosen.queries.query_ids
    assert [4.0] == chosen.queries.labels.tolist()
    clipped = export([log.folder], out, propensities="power:3", max_weight=7.0, overwrite=True)
    assert clipped.joined.queries.weights is not None
    assert [7.0, 7.0, 7.0] == clipped.joined.queries.weights.tolist()
    assert clipped.propensities is not None
    assert 3.0**-3 == pytest.approx(clipped.propensities.of(3))
    plain = export([log.folder], out, propensities="power:3", overwrite=True).joined.queries.weights
    assert plain is not None
    assert [10.0, 10.0, 10.0] == plain.tolist()
    assert [1.0, 0.0] == sorted(
        {*export([log.folder], out, overwrite=True).joined.queries.labels}, reverse=True
    )


def test_propensities_are_estimated_from_the_impressions_that_are_used(log: Log) -> None:
    """Model "web" is clicked half as often at the second place, "shop" nowhere but there."""
    for number in range(40):
        request, second = f"r{number}", number % 2
        log.show(request, [1, 0] if second else [0, 1], ids=["a", "b"])
        if number % (4 if second else 2) == second:
            log.say(request, id="a", click=True)
        log.show(f"s{number}", [0, 1], ids=["a", "b"], model="shop")
        log.say(f"s{number}", id="b", click=True)

    found = export([log.folder], log.folder / "out.parquet", which=Which("web"), propensities="em")

    assert found.propensities is not None
    np.testing.assert_allclose(found.propensities.ratios, [1.0, 0.5], rtol=1e-3)


def test_a_feature_with_the_name_of_a_column_is_no_csv(tmp_path: Path) -> None:
    log = Log(tmp_path, ("qid", "age"))
    log.show("r1", [0, 1])
    log.say("r1", id="d0", click=True)

    with pytest.raises(InvalidData, match="the feature 'qid' has the name of a CSV column"):
        export([tmp_path], tmp_path / "out.csv")
    assert ("qid", "age") == export([tmp_path], tmp_path / "out.parquet").joined.queries.feature_names


def test_a_csv_that_cannot_be_written_leaves_nothing_behind(log: Log) -> None:
    log.show("r1", [0, 1])
    log.say("r1", id="d0", click=True)
    out = log.folder / "out.csv"
    out.mkdir()

    with pytest.raises(InvalidData, match=r"out\.csv: Is a directory"):
        export([log.folder], out, overwrite=True)
    assert {log.path, log.feedback, out} == set(log.folder.iterdir())
    with pytest.raises(InvalidData, match="No such file or directory"):
        export([log.folder], log.folder / "nowhere" / "out.csv")


@pytest.mark.parametrize("name", ["click_label", "max_weight"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan])
def test_a_label_or_weight_that_is_none_is_refused(log: Log, name: str, value: float) -> None:
    with pytest.raises(InvalidConfiguration, match=f"--{name.replace('_', '-')}: expected a number above 0"):
        export([log.folder], log.folder / "out.csv", **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("ratios", r"places\.json: expected JSON, found "),
        ("[1, 0.5]", r"places\.json: expected a list 'ratios'"),
        ('{"known": 2}', r"places\.json: expected a list 'ratios'"),
    ],
)
def test_a_file_without_propensities_is_refused(log: Log, content: str, message: str) -> None:
    places = log.folder / "places.json"
    places.write_text(content)

    with pytest.raises(InvalidData, match=message):
        export([log.folder], log.folder / "out.csv", propensities=str(places))


def test_damaged_torn_and_foreign_files_are_told(log: Log) -> None:
    log.show("r1", [0, 1])
    log.say("r1", id="d0", click=True)
    log.show("r2", [0, 0])
    with log.path.open("ab") as file:
        file.write(b"\x93LRJ half")
    other = log.folder / file_name(2, 2)
    other.write_bytes(b"something else, long enough to be a record, but it is none" * 4)

    found = export([log.folder], log.folder / "out.csv")

    assert (1, 1, (other,)) == (found.damaged, found.torn, found.foreign)
    assert found.propensities is None
    assert 1 == found.joined.impressions


def test_damaged_feedback_is_counted_although_impressions_are_read_after_it(log: Log) -> None:
    log.show("r1", [0, 1])
    log.say("r1", id="d0", click=True)
    log.say("r1", id="d1", click=False, grade=-3.0)

    assert 1 == export([log.folder], log.folder / "out.csv").damaged
