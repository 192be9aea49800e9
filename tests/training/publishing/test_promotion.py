"""Whether a new version takes the champion's place, and the sentence that says why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from localrank.errors import ArtifactNotFound, InvalidData, InvalidDocuments
from localrank.metrics import Measured, measure
from localrank_training.publishing import publish as promotion
from localrank_training.report.figures import CONVENTION, METRICS
from localrank_training.report.verdict import Verdict
from tests.training.kinds import two_kinds

if TYPE_CHECKING:
    import numpy as np

HELD = two_kinds(40, seed=3)
GOOD = HELD.labels.copy()
BAD = -HELD.labels


def measured(scores: np.ndarray) -> tuple[Measured, ...]:
    return tuple(measure(HELD.labels, scores, HELD.offsets, METRICS, CONVENTION))


class Served:
    path = "models/web/1"

    def __str__(self) -> str:
        return "web@1"


class Models:
    """A registry whose only alias is the champion of ``web``."""

    def resolve(self, model: str) -> Served:
        if model != "web@champion":
            raise ArtifactNotFound(model)
        return Served()


def decide(
    monkeypatch: pytest.MonkeyPatch, new: np.ndarray, served: np.ndarray | Exception, name: str = "web"
) -> tuple[bool, str]:
    def ranked(ranker: object, queries: object) -> Any:
        assert ("ranker of models/web/1", HELD) == (ranker, queries)
        if isinstance(served, Exception):
            raise served
        return SimpleNamespace(scores=served)

    monkeypatch.setattr(
        promotion, "load", lambda path: SimpleNamespace(ranker=f"ranker of {path}"), raising=True
    )
    monkeypatch.setattr(promotion, "rank_all", ranked)
    trained: Any = SimpleNamespace(held_out=SimpleNamespace(queries=HELD))
    report: Any = SimpleNamespace(
        local=measured(new),
        baseline=SimpleNamespace(given=False),
        verdict=Verdict("same", "verdict: one global model"),
    )
    models: Any = Models()
    return promotion.better_than_served(models, name, trained, report)


def test_the_first_version_is_promoted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (True, "promoted: shop had no champion") == decide(monkeypatch, GOOD, BAD, "shop")


def test_a_better_version_is_promoted(monkeypatch: pytest.MonkeyPatch) -> None:
    promoted, sentence = decide(monkeypatch, GOOD, BAD)

    assert promoted
    assert sentence.startswith("promoted: better than web@1: ")


def test_a_worse_version_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    promoted, sentence = decide(monkeypatch, BAD, GOOD)

    assert not promoted
    assert sentence.startswith("not promoted: worse than web@1: ")


def test_an_equal_version_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (False, "not promoted: no metric differs from web@1 by more than chance") == decide(
        monkeypatch, GOOD, GOOD
    )


@pytest.mark.parametrize("error", [InvalidData("other features"), InvalidDocuments("other features")])
def test_a_champion_that_cannot_rank_these_queries_stays(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    assert decide(monkeypatch, GOOD, error) == (
        False,
        "not promoted: web@1 cannot rank these queries, so there is no comparison: other features",
    )
