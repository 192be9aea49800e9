"""Which judgement a document gets, and what is counted, in every corner of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.errors import InvalidData
from localrank.journal import Logged
from localrank_training.data.clicks.joining import Which, join, judged, tally
from localrank_training.data.clicks.propensities import Propensities
from tests.training.data.clicks.log import Log

if TYPE_CHECKING:
    from pathlib import Path

    from localrank_training.data.clicks.joining import Joined

RATIOS = Propensities(np.array([1.0, 0.5, 0.05]), 3, "test")


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def joined(log: Log, **settings: Any) -> Joined:
    return join(Logged([log.folder]), **settings)


def labels(log: Log, **settings: Any) -> list[float]:
    return list(joined(log, **settings).queries.labels)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([(1.0, 4), (2.0, 3)], 3),
        ([(2.0, 4), (1.0, 3)], 4),
        ([(2.0, 4), (2.0, 3)], 3),
    ],
)
@pytest.mark.parametrize("names", [("id", "id"), ("id", "index"), ("index", "id")])
def test_the_latest_grade_counts_and_of_equal_times_the_one_that_was_logged_last(
    log: Log, said: list[tuple[float, int]], expected: float, names: tuple[str, str]
) -> None:
    """Whatever order they are logged in, and whether a document is named by its id or by its index."""
    log.show("r1", [0, 1])
    for (time, grade), name in zip(said, names, strict=True):
        document: dict[str, Any] = {"id": "d1"} if name == "id" else {"index": 1}
        log.say("r1", time=time, grade=grade, **document)

    assert [0, expected] == labels(log)


def test_the_first_of_documents_with_one_id_is_meant(log: Log) -> None:
    log.show("r1", [0, 1, 2, 3], ids=["a", "b", "a", "c"])
    log.say("r1", id="a", grade=1)
    log.say("r1", id="c", grade=3)

    assert [1, 0, 0, 3] == labels(log)


def test_a_document_is_known_by_its_index_without_ids(log: Log) -> None:
    log.show("r1", [1, 0], ids=None)
    log.say("r1", index=0, grade=2)
    log.say("r1", index=1, click=True)
    log.say("r1", index=2, click=True)
    log.say("r1", id="d0", click=True)

    found = joined(log)

    assert [1, 2] == found.queries.labels.tolist()
    assert (1, 1, 2) == (found.clicks, found.grades, found.unmatched)


def test_clicks_and_grades_of_a_request_that_is_not_there_are_all_counted(log: Log) -> None:
    log.show("r1", [0, 1])
    log.say("r1", id="d0", click=True)
    log.say("r9", id="d0", click=True)
    log.say("r9", id="d1", click=True)
    log.say("r9", id="d0", grade=2)
    log.say("r1", query=1, id="d0", grade=2)

    found = joined(log)

    assert (5, 0, 4) == (found.events, found.repeated_events, found.unmatched)


def test_events_without_a_name_are_never_repetitions(log: Log) -> None:
    log.show("r1", [0, 1])
    for event in (None, None, "e", "e", "e"):
        log.say("r1", id="d1", click=True, event_id=event)

    found = joined(log)

    assert (3, 2, 1) == (found.events, found.repeated_events, found.clicks)


def test_impressions_are_counted_by_what_became_of_them(log: Log) -> None:
    for number in range(3):
        log.show(f"r{number}", [0, 1], degraded={"rung": "global", "reason": "timeout"} if number else None)
    log.show("r0", [1, 0])
    log.say("r0", id="d0", click=True)
    log.say("r0", id="d1", grade=2)

    found = joined(log)

    assert (3, 1, 2, 2) == (found.impressions, found.repeated, found.unjudged, found.degraded)
    assert (1, 1) == (found.clicks, found.grades)
    assert [1, 2] == found.queries.labels.tolist()


def test_every_impression_is_yielded_with_its_places_and_judgements(log: Log) -> None:
    log.show("r1", [2, 0, 1], shown=2)
    log.show("r2", [0, 1])
    log.say("r1", id="d0", click=True)
    log.say("r1", id="d2", grade=3)

    first, second = judged(Logged([log.folder]))

    assert [2, 0, 1] == first.places.tolist()
    assert ({0}, {2: 3.0}) == (first.clicked, first.grades)
    assert ([1, 2], set(), {}) == (second.places.tolist(), second.clicked, second.grades)
    assert [] == list(judged(Logged([log.folder]), which=Which("other")))


def test_a_later_page_has_later_places(log: Log) -> None:
    log.show("r1", [2, 0, 1, 3], shown=2, offset=1)

    [found] = judged(Logged([log.folder]))

    assert [2, 3, 0, 0] == found.places.tolist()


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        (Which(), ("a", "b", "c")),
        (Which("web"), ("a", "c")),
        (Which("shop"), ("b",)),
        (Which(since=2.0), ("b", "c")),
        (Which(until=2.0), ("a",)),
        (Which("web", since=2.0, until=3.0), ()),
        (Which("web", since=3.0), ("c",)),
    ],
)
def test_impressions_are_chosen_by_model_and_time(log: Log, which: Which, expected: tuple[str, ...]) -> None:
    for request, model, time in (("a", "web", 1.0), ("b", "shop", 2.0), ("c", "web", 3.0)):
        log.show(request, [0, 1], model=model, time=time)
        log.say(request, id="d0", click=True)

    found = tuple(one.impression["request_id"] for one in judged(Logged([log.folder]), which=which))

    assert expected == found


def test_what_is_judged_but_was_not_shown_comes_last_in_the_order_of_the_request(log: Log) -> None:
    log.show("r1", [4, 3, 2, 1, 0], shown=2)
    log.say("r1", id="d2", grade=2)
    log.say("r1", id="d0", click=True)

    queries = joined(log, click_label=0.5).queries

    assert [0, 0, 0.5, 2] == queries.labels.tolist()
    assert queries.positions is not None
    assert [1, 2, 0, 0] == queries.positions.tolist()
    assert [[8, 9], [6, 7], [0, 1], [4, 5]] == queries.documents.tolist()


def test_a_click_has_label_one_and_a_weight_of_ten_at_most_unless_told_otherwise(log: Log) -> None:
    log.show("r1", [0, 1, 2])
    log.say("r1", id="d2", click=True)

    assert [0, 0, 1] == labels(log)
    plain = joined(log, propensities=RATIOS).queries
    free = joined(log, propensities=RATIOS, max_weight=100, click_label=3).queries

    assert plain.weights is not None
    assert free.weights is not None
    assert ([10.0], [20.0]) == (plain.weights.tolist(), free.weights.tolist())
    assert ([0, 0, 1], [0, 0, 3]) == (plain.labels.tolist(), free.labels.tolist())


def test_with_propensities_graded_impressions_are_one_query_of_weight_one(log: Log) -> None:
    """A grade is no click: it does not depend on where the document stood."""
    log.show("r1", [0, 1, 2])
    log.say("r1", id="d1", grade=3)
    log.say("r1", id="d2", click=True)
    log.show("r2", [0, 1, 2])
    log.say("r2", id="d1", click=True)

    queries = joined(log, propensities=RATIOS).queries

    assert ("r1", "r2:2") == queries.query_ids
    assert queries.weights is not None
    assert [1.0, 2.0] == queries.weights.tolist()
    assert [0, 3, 1, 0, 1, 0] == queries.labels.tolist()


def test_with_propensities_the_first_place_is_corrected_too_and_what_was_not_shown_is_left_out(
    log: Log,
) -> None:
    log.show("r1", [2, 1, 0], shown=2)
    log.say("r1", id="d2", click=True)
    log.say("r1", id="d0", click=True)

    found = joined(log, propensities=RATIOS)

    assert ("r1:1",) == found.queries.query_ids
    assert [1, 0] == found.queries.labels.tolist()
    assert found.queries.weights is not None
    assert [1.0] == found.queries.weights.tolist()
    assert (2, 1) == (found.clicks, found.unplaced)
    assert 0 == joined(log).unplaced


def test_with_propensities_and_without_the_rest_a_click_stands_alone(log: Log) -> None:
    log.show("r1", [0, 1, 2])
    log.say("r1", id="d2", click=True)
    log.say("r1", id="d1", click=True)

    queries = joined(log, propensities=RATIOS, rest="drop").queries

    assert ("r1:2", "r1:3") == queries.query_ids
    assert [1, 1] == queries.labels.tolist()


def test_a_second_query_of_a_request_has_its_number_in_its_name(log: Log) -> None:
    for number in range(3):
        log.show("r1", [0, 1], query=number)
        log.say("r1", query=number, id="d0", click=True)

    assert ("r1", "r1/1", "r1/2") == joined(log).queries.query_ids


def test_contracts_of_the_same_features_are_joined(log: Log) -> None:
    log._write({"kind": "contract", "contract": "again", "names": ["bm25", "age"]})
    for request, contract in (("r1", "c"), ("r2", "again"), ("r3", "c")):
        log.show(request, [0, 1], contract=contract)
        log.say(request, id="d0", click=True)

    queries = joined(log).queries

    assert ("r1", "r2", "r3") == queries.query_ids
    assert [0, 2, 4, 6] == queries.offsets.tolist()
    assert list(range(6)) == queries.lines.tolist()


def test_other_names_for_as_many_features_are_other_features(log: Log) -> None:
    log._write({"kind": "contract", "contract": "other", "names": ["age", "bm25"]})
    for request, contract in (("r1", "c"), ("r2", "other")):
        log.show(request, [0, 1], contract=contract)
        log.say(request, id="d0", click=True)

    with pytest.raises(InvalidData, match=r"expected 2 \('bm25', …\), found 2 \('age', …\)"):
        joined(log)


def test_a_row_of_another_length_than_its_contract_is_refused(log: Log) -> None:
    log.show("r1", [0, 1], features=np.ones((2, 3), "<f4"))
    log.say("r1", id="d0", click=True)

    with pytest.raises(InvalidData, match="request 'r1': expected 2 features, found 3"):
        joined(log)


def test_documents_with_and_without_an_id_are_counted_by_model_query_and_place(log: Log) -> None:
    """A document without an id is known by its features; one of another model is another one."""
    rows = np.array([[1, 2], [3, 4]], "<f4")
    log.show("r1", [0, 1], ids=["a", None], features=rows)
    log.show("r2", [1, 0], ids=["a", None], features=rows)
    log.show("r3", [0, 1], ids=["a", None], features=rows, model="shop")
    log.show("r4", [0, 1], ids=["a", None], features=rows, shown=1)
    log.say("r1", id="a", click=True)
    log.say("r4", id="a", click=True)

    every = tally(Logged([log.folder])).arrays()
    shop = tally(Logged([log.folder]), which=Which("shop")).arrays()

    counted = sorted(zip(*(one.tolist() for one in every), strict=True))
    # (pair, place, shown, clicks): "a" and the other one of the first model, then both of the other.
    assert [(0, 0, 2, 2), (0, 1, 1, 0), (1, 0, 1, 0), (1, 1, 1, 0), (2, 0, 1, 0), (3, 1, 1, 0)] == counted
    assert [0, 1] == shop[1].tolist()
