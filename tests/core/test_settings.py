from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - settings read their annotations when they run
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from localrank.errors import InvalidConfiguration
from localrank.settings import (
    checked,
    from_fields,
    plain,
    read_texts,
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
    log: Path = Path("log")

    def __post_init__(self) -> None:
        if self.mode == "grill" and self.heat < 200:
            raise InvalidConfiguration("grill: expected at least 200 degrees")


@dataclass(frozen=True)
class Shelf:
    books: tuple[int, ...] = setting((), low=1)


def _refuse(text: str) -> None:
    if text == "bad":
        raise InvalidConfiguration("expected a good one")
    if text == "named":
        raise InvalidConfiguration("code: expected a good one")
    if text == "worse":
        raise ValueError("expected a better one")


@dataclass(frozen=True)
class Kitchen:
    """Settings of every form that there is."""

    name: str = "home"
    oven: Oven = field(default_factory=Oven)
    shelves: tuple[Shelf, ...] = ()
    heats: Mapping[str, float] | None = setting(None, low=50, high=300, meaning="of each dish")
    code: str = setting("a", check=_refuse)
    pin: str = setting("a", check=_refuse, secret=True)
    speed: float | tuple[float, ...] = setting(1.0, above=0)
    pan: Literal["iron"] = "iron"
    kept: int = field(default=3, init=False)


def test_values_are_taken_and_the_rest_has_its_defaults() -> None:
    made = checked(Oven, {"heat": 200, "trays": 2, "mode": "grill", "times": [1, 2.5]}, "oven")

    assert Oven(200.0, 2, "grill", preheat=True, times=(1.0, 2.5)) == made
    assert isinstance(made.heat, float)
    assert Oven() == checked(Oven, {}, "oven")
    assert Path("x") == checked(Oven, {"log": "x"}, "oven").log
    assert Shelf() == checked(Shelf, {"books": []}, "shelf")
    assert (300, 1) == (checked(Oven, {"heat": 300}, "x").heat, checked(Oven, {"trays": 1}, "x").trays)


def test_tables_stand_in_tables_and_in_lists() -> None:
    made = checked(
        Kitchen, {"oven": {"heat": 90}, "shelves": [{"books": [1]}, {"books": [2, 3]}]}, "run.toml"
    )

    assert Oven(90.0) == made.oven
    assert (Shelf((1,)), Shelf((2, 3))) == made.shelves
    assert made == checked(Kitchen, made, "x")
    assert Oven(90.0) == checked(Kitchen, {"oven": Oven(90.0)}, "x").oven
    assert {"stew": 50.0, "roast": 300.0} == checked(
        Kitchen, {"heats": {"stew": 50, "roast": 300}}, "x"
    ).heats


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (3, "expected a table of settings, found 3"),
        ({"shelf": {}}, "unknown table 'shelf'; did you mean 'shelves'? (expected: name, oven, "),
        ({"kept": 4}, "unknown setting 'kept' (expected: name, oven, shelves, "),
        ({"code": "bad"}, "code: expected a good one"),
        ({"code": "named"}, "code: expected a good one"),
        ({"code": "worse"}, "code: expected a better one, found 'worse'"),
        ({"pin": "worse"}, "pin: expected a better one"),
        ({"code": 3}, "code: expected a text, found 3"),
        ({"speed": "x"}, "speed: expected a number or a list of numbers, found 'x'"),
        ({"speed": [1, "x"]}, "speed: expected a number or a list of numbers, found [1, 'x']"),
        ({"speed": [1, 0]}, "speed: expected more than 0, found 0"),
        ({"speed": []}, "speed: expected a number or a list of numbers, found []"),
        ({"pan": "tin"}, "pan: expected 'iron', found 'tin'"),
        ({"heats": {"stew": 49}}, "heats: expected at least 50, found 49.0"),
        ({"heats": {"stew": 301}}, "heats: expected at most 300, found 301.0"),
        ({"heats": {"stew": "hot"}}, "heats: expected a table by name, each number, found "),
        ({"heats": 3}, "heats: expected a table by name, each number, found 3"),
        ({"shelves": {"books": [1]}}, "shelves: expected a list of tables, found {'books': [1]}"),
        ({"shelves": [{"books": [1]}, {"books": [0]}]}, "shelves 2: books: expected at least 1, found 0"),
        ({"oven": 3}, "[oven]: expected a table of settings, found 3"),
        ({"oven": {"heta": 1}}, "[oven]: unknown setting 'heta'; did you mean 'heat'?"),
        ({"oven": {"heat": "hot"}}, "[oven]: heat: expected a number, found 'hot'"),
        ({"oven": {"heat": True}}, "[oven]: heat: expected a number, found True"),
        ({"oven": {"heat": None}}, "[oven]: heat: expected a number, found None"),
        ({"oven": {"heat": float("nan")}}, "[oven]: heat: expected a number, found nan"),
        ({"oven": {"heat": 0}}, "[oven]: heat: expected more than 0, found 0"),
        ({"oven": {"heat": 301}}, "[oven]: heat: expected at most 300, found 301"),
        ({"oven": {"trays": 1.5}}, "[oven]: trays: expected a whole number, found 1.5"),
        ({"oven": {"trays": np.float64(3)}}, "[oven]: trays: expected a whole number, found "),
        ({"oven": {"trays": np.array(3)}}, "[oven]: trays: expected a whole number, found "),
        ({"oven": {"trays": 0}}, "[oven]: trays: expected at least 1, found 0"),
        ({"oven": {"mode": "boil"}}, "[oven]: mode: expected one of 'fan', 'grill', found 'boil'"),
        ({"oven": {"preheat": 1}}, "[oven]: preheat: expected true or false, found 1"),
        ({"oven": {"log": ""}}, "[oven]: log: expected a path, found ''"),
        ({"oven": {"times": [1, -1]}}, "[oven]: times: expected more than 0, found -1"),
        ({"oven": {"mode": "grill"}}, "[oven]: grill: expected at least 200 degrees"),
        ({"oven": {"eta": 1}}, "[oven]: unknown setting 'eta'"),
    ],
)
def test_what_is_wrong_gets_one_sentence_with_its_place(values: Any, sentence: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        checked(Kitchen, values, "run.toml")

    said = str(caught.value)
    assert said.startswith(f"run.toml {sentence}" if sentence[0] == "[" else f"run.toml: {sentence}")
    assert ("found" in said) == ("found" in sentence)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({}, Oven()),
        ({"heat": "2e2", "trays": "3"}, Oven(200.0, 3)),
        ({"mode": "grill", "heat": "250"}, Oven(250.0, mode="grill")),
        ({"preheat": "off", "log": "a/b"}, Oven(preheat=False, log=Path("a/b"))),
        ({"preheat": "Yes"}, Oven()),
        ({"times": "1, 2.5,"}, Oven(times=(1.0, 2.5))),
        ({"heat": "hot"}, "--heat: expected a number, found 'hot'"),
        ({"heat": "inf"}, "--heat: expected a number, found inf"),
        ({"trays": "1.5"}, "--trays: expected a whole number, found '1.5'"),
        ({"trays": "0"}, "--trays: expected at least 1, found 0"),
        ({"preheat": "maybe"}, "--preheat: expected true or false, found 'maybe'"),
        ({"mode": "boil"}, "--mode: expected one of 'fan', 'grill', found 'boil'"),
        ({"log": ""}, "--log: expected a path, found ''"),
        (
            {"heta": "1"},
            "--heta: no such setting; did you mean '--heat'? (expected: --heat, --trays, --mode, --preheat, --times, --log)",
        ),
    ],
)
def test_texts_are_read_as_their_settings_say(texts: dict[str, str], expected: object) -> None:
    if isinstance(expected, Oven):
        assert expected == read_texts(Oven, texts, "--{}".format)
        return
    with pytest.raises(InvalidConfiguration) as caught:
        read_texts(Oven, texts, "--{}".format)

    assert expected == str(caught.value)


def test_secrets_are_not_shown() -> None:
    assert "open sesame" not in repr(Kitchen(pin="open sesame"))
    assert ["pin"] == [one.name for one in settings_of(Kitchen) if one.secret]


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


def test_settings_describe_themselves() -> None:
    @dataclass(frozen=True)
    class Seconds:
        long: int = setting(1, high=2**40)

    described = {one.name: one for one in settings_of(Kitchen)}

    assert {
        "name": "text",
        "oven": "table",
        "shelves": "a list of tables",
        "heats": "a table by name, each number, at least 50, at most 300",
        "code": "text",
        "pin": "text",
        "speed": "number or a list of numbers, above 0",
        "pan": "'iron'",
    } == {name: one.values for name, one in described.items()}
    assert ("home", Oven(), (), None) == tuple(
        described[name].default for name in ("name", "oven", "shelves", "heats")
    )
    assert ("of each dish", "") == tuple(described[name].meaning for name in ("heats", "code"))
    assert ["whole number, at least 1", "one of 'fan', 'grill'", "true or false"] == [
        one.values for one in settings_of(Oven)[1:4]
    ]
    assert "whole number, at most 1099511627776" == settings_of(Seconds)[0].values
    assert "kept" not in values_of(Kitchen())


def test_settings_made_in_python_are_checked_on_demand() -> None:
    settle(Oven(heat=300.0))

    with pytest.raises(InvalidConfiguration, match=r"^heat: expected at most 300, found 300\.5$"):
        settle(Oven(heat=300.5))


def test_numbers_of_numpy_become_numbers_of_python() -> None:
    heat, trays = np.float16(90.5), np.uint32(3)

    oven = checked(Oven, {"heat": heat, "trays": trays, "times": [heat, trays]}, "oven")

    assert Oven(90.5, 3, times=(90.5, 3.0)) == oven
    assert [float, int, float, float] == [type(one) for one in (oven.heat, oven.trays, *oven.times)]


@dataclass(frozen=True)
class Written:
    inner: Oven = field(default_factory=Oven)

    def to_table(self) -> dict[str, Any]:
        return {"method": "own", "none": None, "several": (1, (2, 3))}


def test_settings_become_values_of_json() -> None:
    assert plain(Kitchen(heats={"stew": 60.0})) == {
        "name": "home",
        "oven": {"heat": 180.0, "mode": "fan", "preheat": True, "times": [1.0], "log": "log"},
        "shelves": [],
        "heats": {"stew": 60.0},
        "code": "a",
        "pin": "a",
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
