from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from localrank.ranker import Ranking, best_first
from localrank.routing.route import Route
from localrank_service.wire.answer import results

if TYPE_CHECKING:
    from collections.abc import Sequence

finite = st.floats(allow_nan=False, allow_infinity=False)
identifiers = st.none() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=["Cs"]))


def ranking_of(scores: Sequence[float]) -> Ranking:
    found = np.array(scores, np.float64)
    return Ranking(best_first(found), found, Route("global", None), {})


def listed(scores: Sequence[float], ids: Sequence[str | int | None] | None, top_n: int | None) -> object:
    """What the array should hold, from sorting alone."""
    best = sorted(range(len(scores)), key=lambda index: (-scores[index], index))[:top_n]
    named = [{} if ids is None else {"id": ids[index]} for index in best]
    return [
        {"rank": rank, "index": index, **name, "score": scores[index]}
        for rank, (index, name) in enumerate(zip(best, named, strict=True), 1)
    ]


@given(st.data())
def test_the_text_is_that_of_the_objects(data: st.DataObject) -> None:
    scores = data.draw(st.lists(finite, max_size=40))
    ids = data.draw(st.none() | st.lists(identifiers, min_size=len(scores), max_size=len(scores)))
    top_n = data.draw(st.none() | st.integers(1, 50))

    text = results(ranking_of(scores), ids, top_n)

    assert listed(scores, ids, top_n) == json.loads(text)


def test_longer_answers_follow_shorter_ones() -> None:
    for count in (3, 700, 2, 5000):
        scores = [float(-index) for index in range(count)]

        assert listed(scores, None, None) == json.loads(results(ranking_of(scores), None, None))


def test_members_stand_in_the_order_of_the_documentation() -> None:
    text = results(ranking_of([1.5]), ["d"], None)

    assert b'[{"rank":1,"index":0,"id":"d","score":1.5}]' == text


@given(st.data())
def test_teams_stand_beside_the_first_results(data: st.DataObject) -> None:
    scores = data.draw(st.lists(finite, max_size=20))
    ids = data.draw(st.none() | st.lists(identifiers, min_size=len(scores), max_size=len(scores)))
    top_n = data.draw(st.none() | st.integers(1, 30))
    teams = data.draw(st.lists(st.sampled_from(["baseline", "candidate", None]), max_size=len(scores)))

    found = json.loads(results(ranking_of(scores), ids, top_n, teams))

    padded = [*teams, *[None] * len(scores)]
    assert padded[: len(found)] == [one.pop("team") for one in found]
    assert listed(scores, ids, top_n) == found
