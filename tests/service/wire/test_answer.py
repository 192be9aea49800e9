"""What the answers of all wires are made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from localrank.ranker import Ranking
from localrank.routing.route import Route
from localrank_service.wire.answer import (
    Part,
    Ranked,
    experiment_members,
    route_members,
    server_timing,
    warnings_of,
)
from localrank_service.wire.query import Documents, Options
from tests.service.conftest import three_kinds

if TYPE_CHECKING:
    from collections.abc import Mapping

RANKER = three_kinds()


def ranked(
    imputed: Mapping[int, int] | None = None, ignored: dict[str, int] | None = None, part: Part | None = None
) -> Ranked:
    ranking = Ranking(np.arange(1), np.zeros(1), Route("none", None), dict(imputed or {}))
    documents = Documents(np.zeros((1, 4), np.float32), None, lambda _document, _feature: "", ignored or {})
    return Ranked("m", 1, RANKER, Options(), documents, ranking, None, 0, experiment=part)


def test_the_header_has_what_the_answer_has() -> None:
    assert "decode;dur=0.25, total;dur=1.5" == server_timing({"decode": 0.25, "total": 1.5})


@pytest.mark.parametrize(
    ("route", "more"),
    [
        (Route("lsh", 2), {}),
        (Route("lsh", None), {}),
        (Route("lsh", None, local=False), {}),
        (Route("lsh", 2, local=False), {"local": False}),
        (Route("fusion", 1, shares=(0.25, 0.75)), {"shares": (0.25, 0.75)}),
        (Route("fusion", None, local=False, shares=(1.0,)), {"local": False, "shares": (1.0,)}),
    ],
)
def test_what_is_true_of_most_routes_is_left_out(route: Route, more: dict[str, Any]) -> None:
    assert {
        "strategy": route.strategy,
        "cluster": route.cluster,
        "similarity": None,
        "margin": None,
        "candidates": route.candidates,
        "fallback": None,
    } | more == route_members(route)


def warning(code: str, feature: str, count: int) -> dict[str, Any]:
    return {"code": code, "feature": feature, "count": count}


@pytest.mark.parametrize(
    ("most", "shown", "omitted"), [(None, 4, 0), (4, 4, 0), (3, 3, 1), (2, 2, 2), (0, 0, 4), (9, 4, 0)]
)
def test_warnings_that_are_left_out_are_counted(most: int | None, shown: int, omitted: int) -> None:
    given = [
        warning("feature_imputed", "pagerank", 3),
        warning("feature_imputed", "age", 1),
        warning("feature_ignored", "x", 2),
        warning("feature_ignored", "y", 5),
    ]

    found = warnings_of(ranked({1: 3, 3: 1}, {"x": 2, "y": 5}), most)

    last = [warning("warnings_omitted", "", omitted)] if omitted else []
    assert given[:shown] + last == found


@pytest.mark.parametrize(
    ("imputed", "ignored", "codes"),
    [({}, {}, []), ({0: 1}, {}, ["feature_imputed"]), ({}, {"x": 1}, ["feature_ignored"])],
)
def test_either_kind_of_warning_comes_alone(
    imputed: dict[int, int], ignored: dict[str, int], codes: list[str]
) -> None:
    assert codes == [one["code"] for one in warnings_of(ranked(imputed, ignored))]


PART = Part("web-4", "candidate", "s1", 0.5)


def test_the_part_in_an_experiment_is_told_shortly_and_logged_in_full() -> None:
    teams = PART._replace(arm="interleaved", teams=("baseline", None), ranks=((1, 2), (2, 1)))

    assert {"name": "web-4", "arm": "candidate"} == PART.answer()
    assert {"name": "web-4", "arm": "candidate", "unit": "s1", "share": 0.5} == PART.record()
    assert {
        "name": "web-4",
        "arm": "interleaved",
        "unit": "s1",
        "share": 0.5,
        "teams": ("baseline", None),
        "ranks": ((1, 2), (2, 1)),
    } == teams.record()


@pytest.mark.parametrize(
    ("shown", "teams"),
    [(0, []), (1, ["baseline"]), (2, ["baseline", "candidate"]), (4, ["baseline", "candidate", None, None])],
)
def test_each_result_has_a_team_or_none(shown: int, teams: list[str | None]) -> None:
    part = PART._replace(arm="interleaved", teams=("baseline", "candidate"))

    assert {"experiment": {"name": "web-4", "arm": "interleaved", "teams": teams}} == experiment_members(
        ranked(part=part), shown
    )
    assert {"experiment": {"name": "web-4", "arm": "candidate"}} == experiment_members(
        ranked(part=PART), shown
    )
    assert {} == experiment_members(ranked(), shown)
