from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from localrank.errors import InvalidConfiguration
from localrank_training.settings import checked, setting


@dataclass(frozen=True)
class Oven:
    heat: float = setting(180.0, above=0, high=300)
    trays: int | None = setting(None, low=1)
    mode: Literal["fan", "grill"] = "fan"
    preheat: bool = True
    times: tuple[float, ...] = setting((1.0,), above=0)

    def __post_init__(self) -> None:
        if self.mode == "grill" and self.heat < 200:
            raise InvalidConfiguration("grill: expected at least 200 degrees")


@dataclass(frozen=True)
class Shelf:
    books: tuple[int, ...] = setting((), low=1)


def test_an_empty_list_is_read_back_if_it_is_the_default() -> None:
    assert Shelf() == checked(Shelf, {"books": []}, "shelf")
    with pytest.raises(InvalidConfiguration, match="times: expected a list of numbers, found"):
        checked(Oven, {"times": []}, "oven")


def test_what_is_left_out_has_its_default() -> None:
    assert Oven() == checked(Oven, {}, "oven")


def test_values_are_taken_and_whole_numbers_become_real_ones() -> None:
    made = checked(Oven, {"heat": 200, "trays": 2, "mode": "grill", "times": [1, 2.5]}, "oven")

    assert Oven(200.0, 2, "grill", preheat=True, times=(1.0, 2.5)) == made
    assert isinstance(made.heat, float)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"heta": 1}, "oven: unknown setting 'heta'; did you mean 'heat'?"),
        ({"heat": "hot"}, "oven: heat: expected number, found 'hot'"),
        ({"heat": True}, "oven: heat: expected number, found True"),
        ({"heat": float("nan")}, "oven: heat: expected number, found nan"),
        ({"heat": 0}, "oven: heat: expected more than 0, found 0"),
        ({"heat": 301}, "oven: heat: expected at most 300, found 301"),
        ({"trays": 1.5}, "oven: trays: expected whole number, found 1.5"),
        ({"trays": 0}, "oven: trays: expected at least 1, found 0"),
        ({"mode": "boil"}, "oven: mode: expected one of 'fan', 'grill', found 'boil'"),
        ({"preheat": 1}, "oven: preheat: expected true or false, found 1"),
        ({"times": []}, "oven: times: expected a list of numbers, found []"),
        ({"times": [1, -1]}, "oven: times: expected more than 0, found -1"),
        ({"mode": "grill"}, "oven: grill: expected at least 200 degrees"),
    ],
)
def test_what_is_wrong_gets_one_sentence(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        checked(Oven, values, "oven")

    assert str(caught.value).startswith(sentence)
