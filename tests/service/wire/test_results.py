from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from localrank.ranker import Ranker, Ranking, best_first
from localrank.routing.route import Route
from localrank_service.wire.answer import Part, Ranked, results
from localrank_service.wire.query import Documents, Options

if TYPE_CHECKING:
    from collections.abc import Sequence

finite = st.floats(allow_nan=False, allow_infinity=False)
identifiers = st.none() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=["Cs"]))


def ranking_of(scores: Sequence[float]) -> Ranking:
    found = np.array(scores, np.float64)
    return Ranking(best_first(found), found, Route("global", None), {})


def answered(
    ranker: Ranker,
    scores: Sequence[float],
    ids: Sequence[str | int | None] | None = None,
    top_n: int | None = None,
    teams: Sequence[str | None] | None = None,
) -> Ranked:
    part = None if teams is None else Part("e", "interleaved", "u", 0.5, tuple(teams))
    documents = Documents(np.zeros((len(scores), 1), np.float32), ids, lambda *_: "")
    options = Options(top_n=top_n)
    return Ranked("m", 1, ranker, options, documents, ranking_of(scores), None, 0, experiment=part)


def listed(scores: Sequence[float], ids: Sequence[str | int | None] | None, top_n: int | None) -> object:
    """What the array should hold, from sorting alone."""
    best = sorted(range(len(scores)), key=lambda index: (-scores[index], index))[:top_n]
    named = [{} if ids is None else {"id": ids[index]} for index in best]
    return [
        {"rank": rank, "index": index, **name, "score": scores[index]}
        for rank, (index, name) in enumerate(zip(best, named, strict=True), 1)
    ]


@given(data=st.data())
def test_the_text_is_that_of_the_objects(tiny_ranker: Ranker, data: st.DataObject) -> None:
    scores = data.draw(st.lists(finite, max_size=40))
    ids = data.draw(st.none() | st.lists(identifiers, min_size=len(scores), max_size=len(scores)))
    top_n = data.draw(st.none() | st.integers(1, 50))

    text = results(answered(tiny_ranker, scores, ids, top_n))

    assert listed(scores, ids, top_n) == json.loads(text)


def test_longer_answers_follow_shorter_ones(tiny_ranker: Ranker) -> None:
    for count in (3, 700, 2, 5000):
        scores = [float(-index) for index in range(count)]

        assert listed(scores, None, None) == json.loads(results(answered(tiny_ranker, scores)))


def test_members_stand_in_the_order_of_the_documentation(tiny_ranker: Ranker) -> None:
    text = results(answered(tiny_ranker, [1.5], ["d"]))

    assert b'[{"rank":1,"index":0,"id":"d","score":1.5}]' == text


@given(data=st.data())
def test_teams_stand_beside_the_first_results(tiny_ranker: Ranker, data: st.DataObject) -> None:
    scores = data.draw(st.lists(finite, max_size=20))
    ids = data.draw(st.none() | st.lists(identifiers, min_size=len(scores), max_size=len(scores)))
    top_n = data.draw(st.none() | st.integers(1, 30))
    teams = data.draw(st.lists(st.sampled_from(["baseline", "candidate", None]), max_size=len(scores)))

    found = json.loads(results(answered(tiny_ranker, scores, ids, top_n, teams)))

    padded = [*teams, *[None] * len(scores)]
    assert padded[: len(found)] == [one.pop("team") for one in found]
    assert listed(scores, ids, top_n) == found
