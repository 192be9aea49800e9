"""What is written is TOML, and the standard library reads the same values from it."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from localrank_training.config import TrainingConfig
from localrank_training.toml_text import annotated, to_toml, value_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (0.5, "0.5"),
        (True, "true"),
        ("a", '"a"'),
        ('say "ä"\n', '"say \\"ä\\"\\n"'),
        ([1, [2, "b"]], '[1, [2, "b"]]'),
        ((1, 2), "[1, 2]"),
        ([], "[]"),
        ({"a": 1, "two words": [1], "é": "x"}, '{a = 1, "two words" = [1], "é" = "x"}'),
        ({"a-b_9": 1}, "{a-b_9 = 1}"),
    ],
)
def test_a_value_is_written_as_toml(value: Any, text: str) -> None:
    assert text == value_text(value)
    assert tomllib.loads(f"x = {text}")["x"] == (list(value) if isinstance(value, tuple) else value)


def test_values_stand_before_tables_and_lists_of_tables_after_their_table() -> None:
    tables = {
        "learner": {"method": "blend", "members": [{"method": "a", "C": 1}, {"method": "b"}], "seed": 2},
        "seed": 7,
        "contract": {"missing": {"two words": "zero"}, "constant": None, "names": []},
    }

    text = to_toml(tables)

    assert text.splitlines() == [
        "seed = 7",
        "",
        "[learner]",
        'method = "blend"',
        "seed = 2",
        "",
        "[[learner.members]]",
        'method = "a"',
        "C = 1",
        "",
        "[[learner.members]]",
        'method = "b"',
        "",
        "[contract]",
        'missing = {"two words" = "zero"}',
        "# constant is not set",
        "# names is not set",
    ]
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    read = tomllib.loads(text)
    assert tables["learner"] == read["learner"]


def test_text_without_values_of_its_own_starts_with_its_first_table() -> None:
    assert "[a]\nb = 1\n" == to_toml({"a": {"b": 1}})


def test_a_configuration_is_written_with_what_each_setting_means() -> None:
    config = TrainingConfig.read(method="global", overrides=["learner.C=2", "seed=5"])

    lines = annotated(config).splitlines()

    assert (
        "seed = 5  # seed of all random draws except those of learners with a seed of their own" == lines[0]
    )
    assert "" == lines[1]
    assert "[contract]" == lines[2]
    learner = lines[lines.index("[learner]") + 1 :]
    assert 'method = "ranksvm"' == learner[0]
    assert any(line.startswith("C = 2  # ") for line in learner)
    assert any(line.startswith("# components is not set  # P, the number of") for line in lines)
    assert [] == [line for line in lines if " = " in line and "  # " not in line and "method" not in line]


def test_a_blend_is_written_with_its_members_in_tables() -> None:
    config = TrainingConfig.from_tables(
        {
            "clustering": {"method": "none"},
            "learner": {"method": "blend", "members": [{"method": "ranksvm"}, {"method": "lambdamart"}]},
        }
    )

    text = annotated(config)

    assert 2 == text.count("[[learner.members]]\n")
    assert config == TrainingConfig.from_tables(tomllib.loads(text)).replace(learner=config.learner)
