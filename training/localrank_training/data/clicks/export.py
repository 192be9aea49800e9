"""``localrank data export``: from the log of a service to a file that ``localrank train`` reads."""

from __future__ import annotations

import csv
import json
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from localrank.disk import read_plain
from localrank.errors import InvalidConfiguration, InvalidData
from localrank.journal import Logged
from localrank_training.data.clicks.joining import ALL, Joined, join, tally
from localrank_training.data.clicks.propensities import Propensities, fit, from_power
from localrank_training.data.writing import format_of, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.features.feature import Feature
    from localrank_training.data.clicks.joining import Rest, Which
    from localrank_training.data.clicks.propensities import Tally
    from localrank_training.data.queries import QuerySet

_POWER = re.compile(r"power:(?P<eta>[0-9]+(?:\.[0-9]+)?)")
#: Places of a propensity that is a formula.
_PLACES = 1000
#: Bytes of a file of propensities.
_LARGEST = 1 << 24
_CSV = (".csv",)
#: Columns of CSV besides the features.
COLUMNS = ("label", "qid", "weight", "position")


@dataclass(frozen=True, slots=True)
class ExportedClicks:
    """What was written.

    Attributes:
        joined: the queries, and what became of the records.
        propensities: by which clicks were corrected, if they were.
        damaged: records of the log that could not be read.
        torn: files whose end is not a whole record.
        foreign: files that are named like files of the log and are none.
    """

    joined: Joined
    propensities: Propensities | None
    damaged: int
    torn: int
    foreign: tuple[Path, ...]


def export(
    paths: Sequence[str | Path],
    out: str | Path,
    *,
    which: Which = ALL,
    rest: Rest = "zero",
    click_label: float = 1.0,
    propensities: str | None = None,
    max_weight: float = 10.0,
    overwrite: bool = False,
) -> ExportedClicks:
    """Join impressions and feedback and write them; see `localrank_training.data.clicks.joining.join`.

    Args:
        paths: files of the log, or folders of them.
        out: the file; its name says the format: LETOR text (also ``.gz``, ``.zst``), ``.csv`` or ``.parquet``.
        which: impressions are used.
        rest: what becomes of documents that were shown and not judged.
        click_label: of documents that were clicked and not graded.
        propensities: how clicks are corrected, as of `propensities_of`; none leaves them as they are.
        max_weight: of a query.
        overwrite: replace what is there.
    """
    out = Path(out)
    is_table = out.suffix in _CSV or format_of(out) in {"parquet", "arrow"}
    if propensities is not None and not is_table:
        raise InvalidData(
            f"{out}: expected a format that keeps query weights (.parquet or .csv), found LETOR text; only "
            "--propensities makes weights"
        )
    if propensities is not None and rest == "drop":
        raise InvalidConfiguration(
            "--propensities needs the documents that were shown but not clicked: expected --unjudged zero, "
            "found drop"
        )
    for name, value in (("--click-label", click_label), ("--max-weight", max_weight)):
        if not 0 < value < math.inf:
            raise InvalidConfiguration(f"{name}: expected a number above 0, found {value}")
    logged = Logged(paths)
    found = (
        None
        if propensities is None
        else propensities_of(propensities, tally(logged, which=which) if propensities == "em" else None)
    )
    joined = join(
        logged, which=which, rest=rest, click_label=click_label, propensities=found, max_weight=max_weight
    )
    queries = joined.queries if is_table else replace(joined.queries, positions=None)
    if out.suffix in _CSV:
        _write_csv(queries, out, overwrite=overwrite)
    else:
        write(queries, out, overwrite=overwrite)
    return ExportedClicks(joined, found, logged.damaged, logged.torn, tuple(logged.foreign))


def propensities_of(text: str, counted: Tally | None) -> Propensities:
    """Return the propensities that a text asks for: ``em``, ``power:ETA``, or a file that was written before.

    Args:
        text: what was asked for.
        counted: what ``em`` estimates them from; nothing else needs it.
    """
    if text == "em" and counted is not None:
        return fit(counted)
    if (match := _POWER.fullmatch(text)) is not None:
        return from_power(float(match["eta"]), _PLACES)
    if text.startswith("power:"):
        raise InvalidData(
            f"--propensities {text}: expected a number of at least 0 after 'power:', found {text.removeprefix('power:')!r}"
        )
    try:
        members = json.loads(read_plain(Path(text), _LARGEST))
    except OSError as error:
        raise InvalidData(
            f"--propensities {text}: expected em, power:ETA or a file, found none ({error.strerror or error})"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InvalidData(f"{text}: expected JSON, found {error}") from None
    return Propensities.from_json(members if isinstance(members, dict) else {}, text)


def _cell(feature: Feature, value: float) -> str:
    if value != value:  # noqa: PLR0124 - a missing value
        return ""
    return repr(value) if feature.kind == "number" else feature.values[int(value)]


def _write_csv(queries: QuerySet, out: Path, *, overwrite: bool) -> None:
    names, features = queries.feature_names, queries.features
    if taken := sorted(set(COLUMNS) & set(names)):
        raise InvalidData(
            f"{out}: the feature {taken[0]!r} has the name of a CSV column that is needed for something else; "
            "expected .parquet instead"
        )
    if out.exists() and not overwrite:
        raise InvalidData(f"{out}: expected a new file, found one; --overwrite replaces it")
    draft = out.with_name(f".{out.name}.part")
    positions, weights = queries.positions, queries.weights
    columns = [one for one in COLUMNS if one != "weight" or weights is not None]
    try:
        with draft.open("w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow([*columns, *names])
            for query, query_id in enumerate(queries.query_ids):
                weight = [] if weights is None else [repr(float(weights[query]))]
                span = queries.span(query)
                for row in range(span.start, span.stop):
                    place = 0 if positions is None else int(positions[row])
                    cells = [
                        _cell(one, value)
                        for one, value in zip(features, queries.documents[row].tolist(), strict=True)
                    ]
                    lines.writerow([repr(float(queries.labels[row])), query_id, *weight, place or "", *cells])
        draft.replace(out)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise InvalidData(f"{out}: {error.strerror or error}") from None
