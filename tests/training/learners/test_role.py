"""What all learners share: their settings are checked in one place, however they are made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import pytest

from localrank.errors import InvalidConfiguration
from localrank.settings import setting, settings_of
from localrank_training.learners.blend import Blend
from localrank_training.learners.catalogue import LEARNERS, make
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.learners.role import Learner

if TYPE_CHECKING:
    from localrank.scorers import Scorer
    from localrank_training.learners.lesson import Lesson

#: Every setting of every learner that takes numbers within bounds: method, name, bound, its value.
BOUNDS = [
    pytest.param(method, one.name, bound, one.bounds[bound], id=f"{method} {one.name} {bound}")
    for method, kind in LEARNERS.items()
    for one in settings_of(kind)
    for bound in ("low", "high", "above")
    if one.bounds.get(bound) is not None
]


def refusal(method: str, **settings: object) -> str:
    """Return the message; it is the same for a learner that is made in Python and for one of a table."""
    with pytest.raises(InvalidConfiguration) as python:
        LEARNERS[method](**settings)
    with pytest.raises(InvalidConfiguration) as table:
        make(method, settings, "run.toml")
    assert f"run.toml: {python.value}" == str(table.value)
    return str(python.value)


def wrapped(method: str, name: str, number: float) -> object:
    """Return the number as the setting takes it: alone or in a list."""
    (hint,) = (str(one.hint) for one in settings_of(LEARNERS[method]) if one.name == name)
    return (number,) if "tuple" in hint else number


@pytest.mark.parametrize(("method", "name", "bound", "limit"), BOUNDS)
def test_numbers_beyond_their_bounds_are_refused(method: str, name: str, bound: str, limit: float) -> None:
    beyond = limit + {"low": -1, "high": 1, "above": 0}[bound]
    words = {"low": "at least", "high": "at most", "above": "more than"}[bound]

    said = refusal(method, **{name: wrapped(method, name, beyond)})

    found = "|".join(re.escape(str(one)) for one in (beyond, float(beyond)))
    assert re.fullmatch(rf"{name}: expected {words} {re.escape(str(limit))}, found ({found})", said), said


@pytest.mark.parametrize(
    ("method", "name"),
    [
        pytest.param(method, one.name, id=f"{method} {one.name}")
        for method, kind in LEARNERS.items()
        for one in settings_of(kind)
    ],
)
def test_values_of_another_kind_are_refused(method: str, name: str) -> None:
    said = refusal(method, **{name: object})

    assert said.startswith(f"{name}: expected ")
    assert said.endswith(f", found {object!r}")


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("ranksvm", {"C": float("nan")}, "C: expected a number, found nan"),
        ("ranksvm", {"C": True}, "C: expected a number, found True"),
        ("ranksvm", {"iterations": 2.5}, "iterations: expected a whole number, found 2.5"),
        ("svmmap", {"max_cuts": None}, "max_cuts: expected a whole number, found None"),
        (
            "gmml",
            {"anchor": "middle"},
            "anchor: expected one of 'document', 'mean', 'origin', found 'middle'",
        ),
        (
            "blend",
            {"members": ({"method": "ranksvm"},), "local": 2},
            "local: expected at most 1, the number of members, found 2",
        ),
        ("mhr", {"weights": (0.0, 0.0)}, "weights: expected at least one positive, found none"),
        (
            "mhr",
            {"weights": {"0-1": 1.0}, "base": "sampled"},
            "weights: expected a list, as samples have no levels, found a table",
        ),
    ],
)
def test_a_learner_of_python_is_refused_like_one_of_a_table(
    method: str, settings: dict[str, object], message: str
) -> None:
    assert message == refusal(method, **settings)


@pytest.mark.parametrize("method", [method for method in LEARNERS if method != "blend"])
def test_blocks_have_one_spelling(method: str) -> None:
    assert "[raw, zscore * 0.25]" == make(method, {"blocks": "[ raw,zscore*.25 ]"}).blocks


def test_whole_numbers_become_real_and_lists_become_tuples_as_in_a_table() -> None:
    svm, hyperplanes = RankSvm(C=2), make("mhr", {"weights": [1, 2]})

    assert "2.0" == repr(svm.C)
    assert "(1.0, 2.0)" == repr(hyperplanes.weights)  # type: ignore[attr-defined]


def test_settings_that_agree_are_settled_by_others() -> None:
    assert len(Blend().members) >= Blend().local > 0
    assert 1 == Blend(members=({"method": "ranksvm"},), local=1).local  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Level(Learner):
    """A learner whose blocks are no setting."""

    height: float = setting(1.0, above=0)
    side: Literal["up", "down"] = setting("up")

    method: ClassVar[str] = "level"

    @property
    def blocks(self) -> str:
        return "raw"

    def fit(self, lesson: Lesson) -> Scorer:
        raise NotImplementedError


def test_a_learner_without_settings_of_blocks_keeps_its_own() -> None:
    assert "raw" == Level(height=3).blocks
    assert {} == Level.grid
    assert not Level.continues
    assert Level(height=2) == Level(height=2).settled([])
