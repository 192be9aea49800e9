"""What `localrank models diff` prints fits a screen, whatever a version records."""

from __future__ import annotations

import pytest

from localrank.commands.differences import print_difference
from localrank.difference import Change, Difference, Reranking


def printed(capsys: pytest.CaptureFixture[str], difference: Difference) -> list[str]:
    print_difference(difference)
    return capsys.readouterr().out.splitlines()


def difference(
    *,
    settings: tuple[Change, ...] = (),
    metrics: tuple[Change, ...] = (),
    contract: tuple[Change, ...] = (),
    probe: tuple[Reranking, ...] | None = (),
) -> Difference:
    return Difference(settings, metrics, contract, probe)


def reranking(query: int, tau: float) -> Reranking:
    return Reranking("after", query, 12, (None, 3), tau, same_first=tau == 1, furthest=0 if tau == 1 else 4)


def test_no_line_is_wider_than_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    trials = [{"setting": f"C = {c}", "value": 0.123456789, "chosen": False} for c in range(30)]
    changes = (
        Change("trials", trials[:4], trials),
        Change("weights", list(range(500)), None),
        Change("text", "a" * 300, "b"),
        Change("tables", None, {"part": "tables", "planes": [16, 4, 10]}),
    )

    lines = printed(capsys, difference(settings=changes))

    assert max(map(len, lines)) <= 100
    assert ["trials", "4 rows", "30 rows"] == [part.strip() for part in lines[1].split("  ") if part.strip()]
    assert ["weights", "500 values", "-"] == [part.strip() for part in lines[2].split("  ") if part.strip()]
    assert "…" in lines[3]
    assert ["tables.part", "-", "tables"] == lines[4].split()
    assert ["tables.planes", "-", "16,", "4,", "10"] == lines[5].split()


def test_figures_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    before = [
        {"metric": "map", "model": 0.5, "global": 0.25},
        {"metric": "mrr", "model": 0.75, "global": 0.5},
    ]
    after = [
        {"metric": "map", "model": 0.625, "global": None},
        {"metric": "ndcg@5", "model": 0.5, "global": 0.5},
    ]

    lines = printed(
        capsys, difference(metrics=(Change("figures", before, after), Change("seconds", 1.5, 2.0)))
    )

    rows = [line.split() for line in lines]
    assert ["map", "model", "0.5000", "0.6250", "+0.1250"] in rows
    assert ["map", "global", "0.2500", "-", "-"] in rows
    assert ["mrr", "model", "0.7500", "-", "-"] in rows
    assert ["ndcg@5", "global", "-", "0.5000", "-"] in rows
    assert ["seconds", "1.5", "2"] in rows


def test_tables_of_figures_are_joined_by_their_first_column(capsys: pytest.CaptureFixture[str]) -> None:
    """Texts and columns of one side only are left out. If nothing else has changed, nothing else is printed."""
    before = [{"metric": "map", "model": 0.5, "tool": "a", "old": 1}]
    after = [{"metric": "map", "model": 0.625, "tool": "b", "new": 2}]

    lines = printed(capsys, difference(metrics=(Change("figures", before, after),)))

    assert [
        "metric         before   after  change",
        "map     model  0.5000  0.6250  +0.1250",
    ] == lines[2:4]
    assert ["settings: the same", "", "", "contract: the same"] == [*lines[:2], *lines[4:6]]


def test_25_rows_of_figures_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    table = [{"fold": fold, "map": fold / 100} for fold in range(14)]

    lines = printed(capsys, difference(metrics=(Change("folds", table, table),)))

    # Each has two numbers, fold and map.
    assert "... and 3 more; --json prints all" == lines[2 + 1 + 25]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (True, "True"),
        (3, "3"),
        (123456789, "123456789"),
        (2.0, "2"),
        (0.123456789, "0.123457"),
        ("x" * 40, "x" * 40),
        ("x" * 41, "x" * 39 + "…"),
        (["y" * 19, "y" * 19], "y" * 19 + ", " + "y" * 19),
        (["y" * 19, "y" * 20], "2 values"),
        ([], ""),
        ([{"a": 1}], "1 rows"),
        ([{"a": 1}, 2], "a, 2"),
    ],
)
def test_a_cell_has_at_most_40_characters(
    capsys: pytest.CaptureFixture[str], value: object, cell: str
) -> None:
    lines = printed(capsys, difference(settings=(Change("setting", "before", value),)))

    assert f"setting   before  {cell}".rstrip() == lines[1]


def test_an_object_on_both_sides_has_a_row_for_each_member(capsys: pytest.CaptureFixture[str]) -> None:
    changes = (
        Change("a", {"x": 1, "y": {"z": 2}}, {"y": {"z": 3}, "w": 4}),
        Change("b", {"x": 1}, 5),
        Change("c", None, None),
    )

    lines = printed(capsys, difference(settings=changes))

    assert [
        ["settings", "before", "after"],
        ["a.x", "1", "-"],
        ["a.y.z", "2", "3"],
        ["a.w", "-", "4"],
        ["b", "x", "5"],
        ["c", "-", "-"],
        [],
    ] == [line.split() for line in lines[:7]]


def test_probe_queries_are_counted_and_those_that_changed_most_come_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    probe = tuple(reranking(query, tau) for query, tau in enumerate([1.0, 0.5, 1.0, -0.25, *[0.75] * 12]))

    lines = printed(capsys, difference(probe=probe))

    at = next(number for number, line in enumerate(lines) if line.startswith("probe:"))
    assert (
        "probe: 14 of 16 queries change their order (median tau 0.75), 14 their first document" == lines[at]
    )
    assert ["after", "3", "12", "-", "3", "-0.2500", "no", "4"] == lines[at + 2].split()
    assert ["after", "1", "12", "-", "3", "0.5000", "no", "4"] == lines[at + 3].split()
    assert "... and 4 more; --json prints all" == lines[-1]


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        (
            None,
            "probe: the versions do not have the same features and rules for missing values, so their rankings cannot be compared",
        ),
        ((reranking(0, 1.0), reranking(1, 1.0)), "probe: both versions order all 2 queries alike"),
    ],
)
def test_what_is_the_same_takes_a_line(
    capsys: pytest.CaptureFixture[str], probe: tuple[Reranking, ...] | None, said: str
) -> None:
    lines = printed(capsys, difference(probe=probe))

    assert ["settings: the same", "", "metrics: the same", "", "contract: the same", "", said] == lines
