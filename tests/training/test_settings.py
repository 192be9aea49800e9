from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - settings read their annotations when they run
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration
from localrank_training.settings import (
    checked,
    from_fields,
    plain,
    setting,
    settings_of,
    settle,
    values_of,
)


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
        ({"heat": "hot"}, "oven: heat: expected a number, found 'hot'"),
        ({"heat": True}, "oven: heat: expected a number, found True"),
        ({"heat": float("nan")}, "oven: heat: expected a number, found nan"),
        ({"heat": 0}, "oven: heat: expected more than 0, found 0"),
        ({"heat": 301}, "oven: heat: expected at most 300, found 301"),
        ({"trays": 1.5}, "oven: trays: expected a whole number, found 1.5"),
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


def _refuse(text: str) -> None:
    if text == "bad":
        raise InvalidConfiguration("expected a good one")


@dataclass(frozen=True)
class Kitchen:
    """Settings of every form that there is."""

    name: str = "home"
    oven: Oven = field(default_factory=Oven)
    shelves: tuple[Shelf, ...] = ()
    heats: Mapping[str, float] | None = setting(None, low=50, high=300, meaning="of each dish")
    code: str = setting("a", check=_refuse)
    speed: float | tuple[float, ...] = setting(1.0, above=0)
    pan: Literal["iron"] = "iron"
    kept: int = field(default=3, init=False)


def test_tables_stand_in_tables_and_in_lists() -> None:
    made = checked(
        Kitchen, {"oven": {"heat": 90}, "shelves": [{"books": [1]}, {"books": [2, 3]}]}, "run.toml"
    )

    assert Oven(90.0) == made.oven
    assert (Shelf((1,)), Shelf((2, 3))) == made.shelves
    assert () == checked(Kitchen, {"shelves": []}, "x").shelves
    assert made == checked(Kitchen, made, "x")
    assert Oven(90.0) == checked(Kitchen, {"oven": Oven(90.0)}, "x").oven


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (3, "run.toml: expected a table of settings, found 3"),
        ({"oven": 3}, "run.toml [oven]: expected a table of settings, found 3"),
        ({"oven": {"heat": 0}}, "run.toml [oven]: heat: expected more than 0, found 0.0"),
        ({"shelves": {"books": [1]}}, "run.toml: shelves: expected a list of tables, found {'books': [1]}"),
        (
            {"shelves": [{"books": [1]}, {"books": [0]}]},
            "run.toml: shelves 2: books: expected at least 1, found 0",
        ),
        ({"shelf": {}}, "run.toml: unknown table 'shelf'; did you mean 'shelves'? (expected: name, oven, "),
        ({"kept": 4}, "run.toml: unknown setting 'kept' (expected: name, oven, shelves, "),
        ({"heats": {"stew": 49}}, "run.toml: heats: expected at least 50, found 49.0"),
        ({"heats": {"stew": 301}}, "run.toml: heats: expected at most 300, found 301.0"),
        ({"heats": {"stew": "hot"}}, "run.toml: heats: expected a table by name, each number, found "),
        ({"heats": 3}, "run.toml: heats: expected a table by name, each number, found 3"),
        ({"code": "bad"}, "run.toml: code: expected a good one"),
        ({"code": 3}, "run.toml: code: expected a text, found 3"),
        ({"speed": "x"}, "run.toml: speed: expected a number or a list of numbers, found 'x'"),
        ({"speed": [1, "x"]}, "run.toml: speed: expected a number or a list of numbers, found [1, 'x']"),
        ({"speed": [1, 0]}, "run.toml: speed: expected more than 0, found 0"),
        ({"speed": float("inf")}, "run.toml: speed: expected a number or a list of numbers, found inf"),
        ({"pan": "tin"}, "run.toml: pan: expected 'iron', found 'tin'"),
    ],
)
def test_what_is_wrong_in_a_table_is_named_with_its_place(values: Any, sentence: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        checked(Kitchen, values, "run.toml")

    assert str(caught.value).startswith(sentence)


def test_a_limit_itself_is_within() -> None:
    assert {"stew": 50.0, "roast": 300.0} == checked(
        Kitchen, {"heats": {"stew": 50, "roast": 300}}, "x"
    ).heats
    assert 300 == checked(Oven, {"heat": 300}, "x").heat
    assert 1 == checked(Oven, {"trays": 1}, "x").trays


def test_a_value_may_be_none_only_if_its_type_says_so() -> None:
    assert checked(Oven, {"trays": None}, "x").trays is None
    with pytest.raises(InvalidConfiguration, match="heat: expected a number, found None"):
        checked(Oven, {"heat": None}, "x")


@pytest.mark.parametrize(
    ("written", "ours"),
    [("n_estimators", "num_iterations"), ("eta", "learning_rate"), ("subsample", "bagging_fraction")],
)
def test_names_of_other_libraries_are_known(written: str, ours: str) -> None:
    @dataclass(frozen=True)
    class Trees:
        num_iterations: int = 1
        learning_rate: float = 1.0
        bagging_fraction: float = 1.0

    with pytest.raises(
        InvalidConfiguration, match=f"unknown setting '{written}'; it is called '{ours}' here"
    ):
        checked(Trees, {written: 1}, "x")


def test_a_name_of_another_library_says_nothing_where_the_setting_is_not() -> None:
    with pytest.raises(InvalidConfiguration, match=r"^oven: unknown setting 'eta'(; did|\s\()"):
        checked(Oven, {"eta": 1}, "oven")


def test_settings_describe_themselves() -> None:
    described = {one.name: one for one in settings_of(Kitchen)}

    assert ["name", "oven", "shelves", "heats", "code", "speed", "pan"] == list(described)
    assert {
        "name": "text",
        "oven": "table",
        "shelves": "a list of tables",
        "heats": "a table by name, each number, at least 50, at most 300",
        "code": "text",
        "speed": "number or a list of numbers, above 0",
        "pan": "'iron'",
    } == {name: one.values for name, one in described.items()}
    assert ("home", Oven(), (), None) == tuple(
        described[name].default for name in ("name", "oven", "shelves", "heats")
    )
    assert ("of each dish", "", "") == tuple(described[name].meaning for name in ("heats", "code", "name"))
    assert "whole number, at least 1" == settings_of(Oven)[1].values
    assert "one of 'fan', 'grill'" == settings_of(Oven)[2].values
    assert "true or false" == settings_of(Oven)[3].values


def test_large_limits_are_written_in_full() -> None:
    @dataclass(frozen=True)
    class Seconds:
        long: int = setting(1, high=1_000_000_000)

    assert "whole number, at most 1000000000" == settings_of(Seconds)[0].values


def test_values_are_read_by_name() -> None:
    assert values_of(Oven(90.0, 2)) == {
        "heat": 90.0,
        "trays": 2,
        "mode": "fan",
        "preheat": True,
        "times": (1.0,),
    }
    assert "kept" not in values_of(Kitchen())


def test_settings_made_in_python_are_checked_on_demand() -> None:
    settle(Oven(heat=300.0))

    with pytest.raises(InvalidConfiguration, match=r"^heat: expected at most 300, found 300\.5$"):
        settle(Oven(heat=300.5))
    with pytest.raises(InvalidConfiguration, match=r"^heat: expected a number, found inf$"):
        settle(Oven(heat=float("inf")))
    with pytest.raises(InvalidConfiguration, match=r"^times: expected more than 0, found -1"):
        settle(Oven(times=(1.0, -1.0)))
    with pytest.raises(InvalidConfiguration, match=r"^code: expected a good one$"):
        settle(Kitchen(code="bad"))


@pytest.mark.parametrize("trays", [np.int64(3), np.int8(3), np.uint32(3)])
@pytest.mark.parametrize("heat", [np.float32(90.5), np.float64(90.5), np.float16(90.5)])
def test_numbers_of_numpy_become_numbers_of_python(heat: float, trays: int) -> None:
    oven = checked(Oven, {"heat": heat, "trays": trays, "times": [heat, trays]}, "oven")

    assert Oven(90.5, 3, times=(90.5, 3.0)) == oven
    assert [float, int, float, float] == [type(one) for one in (oven.heat, oven.trays, *oven.times)]


@pytest.mark.parametrize("trays", [np.float64(3.0), np.True_, np.array(3)])
def test_what_is_no_whole_number_is_none_in_numpy_either(trays: object) -> None:
    with pytest.raises(InvalidConfiguration, match=r"^oven: trays: expected a whole number"):
        checked(Oven, {"trays": trays}, "oven")


@dataclass(frozen=True)
class Written:
    inner: Oven = field(default_factory=Oven)

    def to_table(self) -> dict[str, Any]:
        return {"method": "own", "none": None, "several": (1, (2, 3))}


def test_settings_become_values_of_json() -> None:
    assert plain(Kitchen(heats={"stew": 60.0})) == {
        "name": "home",
        "oven": {"heat": 180.0, "mode": "fan", "preheat": True, "times": [1.0]},
        "shelves": [],
        "heats": {"stew": 60.0},
        "code": "a",
        "speed": 1.0,
        "pan": "iron",
        "kept": 3,
    }
    assert {"method": "own", "several": [1, [2, 3]]} == plain(Written())
    assert Oven is plain(Oven)


def test_a_class_may_read_its_own_table() -> None:
    @dataclass(frozen=True)
    class Reversed:
        word: str = ""

        @classmethod
        def from_table(cls, table: Mapping[str, Any], where: str) -> Reversed:
            return cls(f"{where}: {table['word'][::-1]}")

    assert Reversed("x: cba") == checked(Reversed, {"word": "abc"}, "x")
    assert Reversed("abc") == from_fields(Reversed, {"word": "abc"}, "x")
