"""What ``localrank data export`` says; what it writes is tested in tests/training/data/clicks/test_export.py."""

from __future__ import annotations

import datetime as dt
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from localrank.__main__ import main
from localrank_training.cli.export import _figures, _print, _time
from localrank_training.data.clicks.export import ExportedClicks
from localrank_training.data.clicks.joining import Joined
from localrank_training.data.clicks.propensities import Propensities
from localrank_training.data.queries import QuerySet
from tests.training.data.clicks.log import Log


def queries(n_queries: int, n_documents: int, *, weights: bool = False) -> QuerySet:
    offsets = np.linspace(0, n_documents, n_queries + 1).astype(np.int64)
    return QuerySet(
        np.zeros((n_documents, 3), np.float32),
        np.zeros(n_documents),
        offsets,
        tuple(f"q{one}" for one in range(n_queries)),
        ("a", "b", "c"),
        np.arange(n_documents),
        weights=np.ones(n_queries) if weights else None,
    )


def exported(**counts: Any) -> ExportedClicks:
    outside = {name: counts.pop(name) for name in ("damaged", "torn", "foreign") if name in counts}
    propensities = counts.pop("propensities", None)
    joined = Joined(queries(1, 1), **counts)
    return ExportedClicks(joined, propensities, **{"damaged": 0, "torn": 0, "foreign": (), **outside})


@pytest.mark.parametrize(
    ("counts", "line"),
    [
        ({"unjudged": 1}, "1 impression without feedback: left out"),
        ({"unjudged": 2}, "2 impressions without feedback: left out"),
        ({"repeated": 3}, "3 impressions with the request id of another one: left out"),
        ({"degraded": 1}, "1 impression from a cheaper ranking: used"),
        ({"repeated_events": 2}, "2 events with the event_id of another one: each event_id counts once"),
        ({"unmatched": 1}, "1 event for requests or documents that are not in the log: left out"),
        (
            {"unplaced": 1},
            "1 click on documents that were not shown, whose place cannot be corrected: left out",
        ),
        (
            {"unseen": 2},
            "2 values of categories that the model did not know, which the log does not hold: missing",
        ),
        ({"damaged": 4}, "4 records that cannot be read: left out"),
        ({"torn": 1}, "1 file cut off in the middle of a record, as after a crash"),
        (
            {"foreign": (Path("x"),)},
            "1 file with a name like files of the log but other content: left out",
        ),
    ],
)
def test_each_count_has_a_line_of_its_own_if_there_is_any(
    counts: dict[str, Any], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _print(exported(**counts), "out.txt")

    first, *others = capsys.readouterr().out.splitlines()
    assert "out.txt: 1 query, 1 document, 3 features, from 0 impressions with 0 clicks and 0 grades" == first
    assert [f"  {line}"] == others


@pytest.mark.parametrize(("weights", "option"), [(False, ""), (True, "--weight weight ")])
def test_the_command_that_reads_csv_is_shown(
    weights: bool, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _print(ExportedClicks(Joined(queries(1, 1, weights=weights)), None, 0, 0, ()), "my log.csv")

    expected = f"  train with: localrank train 'my log.csv' {option}--position position"
    assert expected == capsys.readouterr().out.splitlines()[-1]


def test_every_count_is_in_the_json() -> None:
    counts = ("impressions", "repeated", "unjudged", "degraded", "events", "repeated_events", "unmatched")
    more = ("unplaced", "clicks", "grades", "unseen")
    numbers = dict(zip((*counts, *more), range(10, 21), strict=True))
    ratios = Propensities(np.array([1.0, 0.5]), 2, "em")

    found = _figures(ExportedClicks(Joined(queries(2, 5), **numbers), ratios, 7, 8, (Path("a"),)), "out.csv")

    assert found == {
        "out": "out.csv",
        "queries": 2,
        "documents": 5,
        "features": 3,
        **numbers,
        "damaged": 7,
        "torn": 8,
        "foreign": ["a"],
        "propensities": {"ratios": [1.0, 0.5], "known": 2, "source": "em"},
    }
    assert _figures(exported(), "x")["propensities"] is None


def test_a_time_without_an_offset_is_utc() -> None:
    noon = dt.datetime(2026, 10, 1, 12, tzinfo=dt.UTC).timestamp()

    assert noon == _time("2026-10-01T12:00", "--since", 0.0)
    assert noon == _time("2026-10-01T14:00+02:00", "--since", 0.0)
    assert noon - 12 * 3600 == _time("2026-10-01", "--since", 0.0)
    assert -math.inf == _time(None, "--since", -math.inf)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--since", "soon"], "--since: expected a date such as 2026-10-01, or a date and time such as"),
        (["--until", "soon"], "--until: expected a date such as 2026-10-01, or a date and time such as"),
        (
            ["--since", "2026-10-01", "--until", "2026-10-01"],
            "--until: expected a time after --since 2026-10-01, found 2026-10-01 (see",
        ),
        (["--write-propensities", "x"], "--write-propensities: expected --propensities with it, found none"),
        (
            ["--unjudged", "zreo"],
            "--unjudged: expected one of zero, drop, found 'zreo'; did you mean 'zero'?",
        ),
        (["--out", ""], "--out: expected a path, found nothing"),
    ],
)
def test_wrong_use_is_named_before_the_log_is_read(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == main(["data", "export", "nowhere", "--out", "x.csv", *options])

    assert capsys.readouterr().err.startswith(f"localrank: {said}")


def test_options_reach_the_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Defaults: unjudged documents have label 0, clicks label 1, weights at most 10; nothing is replaced."""
    log = Log(tmp_path)
    log.show("r1", [0, 1, 2])
    log.say("r1", id="d2", click=True)
    log.show("r2", [0, 1, 2], model="shop")
    log.say("r2", id="d1", click=True)
    out = tmp_path / "out.csv"
    command = ["data", "export", str(tmp_path), "--out", str(out)]

    def rows() -> list[list[str]]:
        return [line.split(",")[:3] for line in out.read_text().splitlines()[1:]]

    assert 0 == main([*command, "--model", "web"])
    assert [["0.0", "r1", "1"], ["0.0", "r1", "2"], ["1.0", "r1", "3"]] == rows()
    assert 1 == main([*command, "--model", "web"])
    again = [*command, "--overwrite"]
    assert 0 == main([*again, "--unjudged", "drop", "--click-label", "3"])
    assert [["3.0", "r1", "3"], ["3.0", "r2", "2"]] == rows()
    assert 0 == main([*again, "--model", "web", "--propensities", "power:3"])
    assert {"10.0"} == {row[2] for row in rows()}
    capsys.readouterr()
    places = tmp_path / "places.json"
    more = ["--propensities", "power:2", "--max-weight", "5", "--write-propensities", str(places), "--json"]
    assert 0 == main([*again, "--model", "web", *more])
    assert {"5.0"} == {row[2] for row in rows()}
    assert 1 == json.loads(capsys.readouterr().out)["clicks"]
    written = places.read_text()
    assert written.endswith("\n}\n")
    assert [1.0, 0.25] == json.loads(written)["ratios"][:2]
    assert written.startswith('{\n "ratios": [\n  1.0,\n')
