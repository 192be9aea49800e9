"""Write the tables of ``docs/performance.md`` from results, without measuring.

    python -m benchmarks.report [--results benchmarks/results] [--page docs/performance.md]

A table stands between ``<!-- table NAME -->`` and ``<!-- end -->``, below the command that measured it and the machine; so
does a plot, which ``benchmarks.plots`` draws. Those without results stay as they are; the prose between them is written by hand.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks.results import Results, Row

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
_MARKED = re.compile(r"<!-- (table|plot) (\S+) -->\n(.*?)<!-- end -->", re.DOTALL)
#: Names as the servers have them.
SERVERS = {
    "localrank": "**LocalRank**",
    "fastapi": "FastAPI + pydantic",
    "by hand": "handler by hand",
    "mlserver": "MLServer",
    "kserve": "KServe",
    "triton": "Triton (PyTriton)",
    "bentoml": "BentoML",
    "litserve": "LitServe",
    "ray": "Ray Serve",
    "mlflow": "MLflow",
    "idle": "empty handler",
}
SHAPES = ((20, 46), (100, 46), (100, 136), (1000, 136), (5000, 136), (1000, 700))


def grid(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in (header, *rows)]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]]) + "\n"


def short(value: float | None) -> str:
    """Return a number with three digits that count."""
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def count(value: float) -> str:
    return f"{value:,.0f}"


def servers(rows: list[Row]) -> dict[tuple[str, str], dict[int, Row]]:
    """Return rows by server and wire, then documents; the least CPU at 100 documents first, or at what there is."""
    found: dict[tuple[str, str], dict[int, Row]] = {}
    for row in rows:
        found.setdefault((row["server"], row["wire"]), {})[row["documents"]] = row
    return dict(
        sorted(found.items(), key=lambda item: item[1].get(100, min(item[1].values(), key=_cpu))["cpu_ms"])
    )


def _cpu(row: Row) -> float:
    return float(row["cpu_ms"])


def cpu(found: Results) -> str:
    sizes = sorted({row["documents"] for row in found["cpu"]})

    def cell(row: Row | None) -> str:
        if row is None:
            return "–"
        low, high = row["cpu_ms_interval"]
        return f"{row['cpu_ms']:.2f} ({low:.2f}–{high:.2f})"

    return grid(
        ("server", "wire", *(f"{count(size)} documents" for size in sizes)),
        [
            (SERVERS[server], wire, *(cell(by_size.get(size)) for size in sizes))
            for (server, wire), by_size in servers(found["cpu"]).items()
        ],
    ) + "".join(f"\n{row['what']} is left out: {row['why']}\n" for row in found["left_out"])


def latency(documents: int) -> Callable[[Results], str]:
    """Return what makes the table for so many documents."""

    def table(found: Results) -> str:
        rows = [row for row in found["latency"] if row["documents"] == documents]
        rates = sorted({row["rate"] for row in rows})
        by_key = {(row["server"], row["wire"], row["rate"]): row for row in rows}

        def cell(row: Row | None) -> str:
            if row is None or row["p50_ms"] is None or row["answered"] < 95:
                return "cannot"
            return " / ".join(
                "{} ({}–{})".format(short(row[name]), *map(short, row[f"{name}_interval"]))
                for name in ("p50_ms", "p99_ms")
            )

        keys = [key for key in servers(found["cpu"]) if any(key == (r["server"], r["wire"]) for r in rows)]
        return grid(
            ("server", "wire", *(f"{rate:.0f} a second" for rate in rates)),
            [
                (SERVERS[server], wire, *(cell(by_key.get((server, wire, rate))) for rate in rates))
                for server, wire in keys
            ],
        )

    return table


def floor(found: Results) -> str:
    return grid(
        ("wire", "documents", "request ms", "empty ms", "bare ms", "looped ms", "times bare", "interval"),
        [
            (
                row["wire"],
                count(row["documents"]),
                *(f"{row[name]:.3f}" for name in ("request_ms", "empty_ms", "bare_ms", "looped_ms")),
                f"{row['times']:.2f}",
                "{:.2f}–{:.2f}".format(*row["interval"]),
            )
            for row in found["floor"]
        ],
    )


def stages(found: Results) -> str:
    return by_shape(found["stages"], "stage")


def blocks(found: Results) -> str:
    return by_shape(found["blocks"], "block")


def by_shape(rows: list[Row], what: str) -> str:
    """Return a table of what there is to measure, by documents and features."""
    by_shape = {(row[what], row["documents"], row["features"]): row for row in rows}
    names = list(dict.fromkeys(row[what] for row in rows))
    shapes = [shape for shape in SHAPES if (names[0], *shape) in by_shape]
    return grid(
        (what, *(f"{count(n_docs)}×{n_features}" for n_docs, n_features in shapes)),
        [
            (
                f"`{name}`",
                *(
                    f"{short(row['us'])} / {short(row['bare_us'])}"
                    for row in (by_shape[name, *shape] for shape in shapes)
                ),
            )
            for name in names
        ],
    )


def every_stage(found: Results) -> str:
    names = list(dict.fromkeys(row["stage"] for row in found["stages"]))
    by_shape: dict[tuple[int, int], dict[str, Row]] = {}
    for row in found["stages"]:
        by_shape.setdefault((row["features"], row["documents"]), {})[row["stage"]] = row
    return grid(
        ("features", "documents", *(f"`{name}`" for name in names)),
        [
            (
                features,
                count(documents),
                *(f"{short(by_name[name]['us'])} / {short(by_name[name]['bare_us'])}" for name in names),
            )
            for (features, documents), by_name in by_shape.items()
        ],
    )


def routes(found: Results) -> str:
    def cells(row: Row) -> tuple[str, str, str]:
        if row["us"] is None:
            return "does not fit into memory", "–", "–"
        return short(row["us"]), short(row["bare_us"]), short(row["us"] / row["bare_us"])

    return grid(
        ("training queries", "features", "route µs", "one product µs", "times"),
        [(count(row["queries"]), row["features"], *cells(row)) for row in found["routes"]],
    )


def growth(found: Results) -> str:
    return grid(
        ("set", "training queries", "p50 ms", "p90", "p99", "CPU ms", "p50, times that of the fewest"),
        [
            (
                row["kind"],
                count(row["queries"]),
                *(short(row[name]) for name in ("p50_ms", "p90_ms", "p99_ms")),
                short(row["cpu_ms"]),
                f"{row['times']:.2f}",
            )
            for row in found["growth"]
        ],
    )


def load(found: Results) -> str:
    return grid(
        (
            "server",
            "workers",
            "arrivals/s",
            "answers/s",
            "p50 ms",
            "p90",
            "p99",
            "p99.9",
            "CPU ms",
            "client %",
        ),
        [
            (
                SERVERS[row["server"]],
                row["workers"],
                count(row["rate"]),
                count(row["achieved"]),
                *(short(row[name]) for name in ("p50_ms", "p90_ms", "p99_ms", "p999_ms")),
                f"{row['cpu_ms']:.3f}",
                f"{row['client_percent']:.0f}",
            )
            for row in found["load"]
        ],
    )


def mixed(found: Results) -> str:
    return grid(
        ("large requests", "a second", "health p50 ms", "p99", "small p50 ms", "p99", "large p50 ms"),
        [
            (
                f"{count(row['documents'])}×{row['features']}"
                if row["rate"]
                else f"none, of {row['features']} features",
                short(row["rate"]) if row["rate"] else "–",
                *(
                    short(row[name])
                    for name in ("health_p50_ms", "health_p99_ms", "small_p50_ms", "small_p99_ms")
                ),
                short(row["large_p50_ms"]),
            )
            for row in found["mixed"]
        ],
    )


def memory(found: Results) -> str:
    return grid(
        ("worker", "training queries", "features", "private MB", "proportional MB", "resident MB"),
        [
            (
                number,
                count(row["queries"]),
                row["features"],
                *(f"{row[name]:.0f}" for name in ("private_mb", "proportional_mb", "resident_mb")),
            )
            for number, row in enumerate(found["workers"], 1)
        ],
    )


def locust(found: Results) -> str:
    return grid(
        ("users", "requests/s", "failed", "p50 ms", "p95", "p99", "server's own mean ms"),
        [
            (
                row["users"],
                short(row["requests_per_s"]),
                f"{row['failures']} of {count(row['requests'])}",
                *(f"{row[name]:.0f}" for name in ("p50_ms", "p95_ms", "p99_ms")),
                short(row["total_ms"]),
            )
            for row in found["locust"]
        ],
    )


class Table(NamedTuple):
    """One table of the page."""

    #: Whose results it is made of.
    measured: str
    make: Callable[[Results], str]
    #: Which list of them, if another command may have measured it.
    part: str = ""


TABLES = {
    "cpu": Table("peers", cpu),
    "cpu-trees": Table("peers_trees", cpu),
    "latency-20": Table("peers", latency(20)),
    "latency-100": Table("peers", latency(100)),
    "latency-1000": Table("peers", latency(1000)),
    "floor": Table("floor", floor),
    "stages": Table("stages", stages),
    "every-stage": Table("stages", every_stage),
    "blocks": Table("stages", blocks, "blocks"),
    "routes": Table("stages", routes),
    "growth": Table("growth", growth),
    "load": Table("load", load),
    "locust": Table("locust_run", locust),
    "mixed": Table("mixed", mixed),
    "memory": Table("second_worker", memory),
}


#: The plots of the page: whose results they are made of, and what they show.
PLOTS = {
    "cpu": ("peers", "CPU per request against documents"),
    "arrivals": ("peers", "Latency of 100 documents against the rate of arrivals"),
    "load": ("load", "Latency against arrivals up to saturation"),
    "stages": ("stages", "Share of each stage in a request"),
    "growth": ("growth", "Latency against training queries"),
}


def about(found: Results, part: str = "") -> str:
    machine = found["machine"]
    command = found.get("commands", {}).get(part, found["command"])
    return (
        f"`{command}` on {machine['cores']} cores of {machine['processor']}, {machine['memory_gib']} GiB, "
        f"{machine['system']}, Python {machine['python']}, numpy {machine['numpy']}:\n"
    )


def filled(page: str, folder: Path = results.FOLDER) -> str:
    """Return a page with the tables of the results in a folder.

    Raises:
        KeyError: the page asks for a table or a plot that there is not.
    """

    def one(match: re.Match[str]) -> str:
        kind, name = match[1], match[2]
        measured = TABLES[name].measured if kind == "table" else PLOTS[name][0]
        found = results.read(measured, folder)
        if found is None:
            return match[0]
        if kind == "plot":
            return f"<!-- plot {name} -->\n![{PLOTS[name][1]}](images/{name}.svg)\n<!-- end -->"
        table = TABLES[name]
        return f"<!-- table {name} -->\n{about(found, table.part)}\n{table.make(found)}<!-- end -->"

    return _MARKED.sub(one, page)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=results.FOLDER)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    options.page.write_text(filled(options.page.read_text(), options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
