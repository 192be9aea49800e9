"""What `localrank models diff` prints fits a screen, whatever a version records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localrank.commands.differences import print_difference
from localrank.registry.difference import Change, Difference, Reranking

if TYPE_CHECKING:
    import pytest


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
