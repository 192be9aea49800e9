"""Write the table and the picture of ``docs/operate/performance.md`` and every table of ``benchmarks/results``, without measuring.

    python -m benchmarks.report

The page shows CPU per request beside other servers. ``benchmarks/results/tables.md`` holds all that was measured: a table
for each list of rows in each file of results, below the command that measured it and the machine.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import results

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.figure import Figure

    from benchmarks.results import Results, Row

DOCS = Path(__file__).parents[1] / "docs"
#: Names and colours of the servers.
SERVERS = {
    "localrank": ("**LocalRank**", "#c2185b"),
    "fastapi": ("FastAPI + pydantic", "#1f77b4"),
    "by hand": ("handler by hand", "#555555"),
    "mlserver": ("MLServer", "#2ca02c"),
    "kserve": ("KServe", "#ff7f0e"),
    "triton": ("Triton (PyTriton)", "#8c564b"),
    "bentoml": ("BentoML", "#9467bd"),
    "litserve": ("LitServe", "#17becf"),
    "ray": ("Ray Serve", "#bcbd22"),
    "mlflow": ("MLflow", "#7f7f7f"),
}
_TABLE = re.compile(r"(<!-- table -->\n).*?(<!-- end -->)", re.DOTALL)


def grid(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in (header, *rows)]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]]) + "\n"


def cell(value: Any) -> str:
    """Return a value as text, a measured number with three digits that count."""
    if value is None:
        return "–"
    if isinstance(value, list):
        return "–".join(map(cell, value))
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def about(found: Results, part: str = "") -> str:
    """Return the machine, and the command that measured a list of rows."""
    machine = found["machine"]
    return (
        f"`{found.get('commands', {}).get(part, found['command'])}` on {machine['cores']} cores of {machine['processor']}, {machine['memory_gib']} GiB, "
        f"{machine['system']}, Python {machine['python']}, numpy {machine['numpy']}:\n"
    )


def every_table(folder: Path = results.FOLDER) -> str:
    """Return the page of all results in a folder."""
    parts = ["# What was measured\n\n<!-- Made by make performance -->\n"]
    for path in sorted(folder.glob("*.json")):
        found = results.read(path.stem, folder) or {}
        parts.append(f"## {path.stem}\n")
        for name, rows in found.items():
            if isinstance(rows, list) and rows:
                columns = list(dict.fromkeys(column for row in rows for column in row))
                body = [[cell(row.get(column)) for column in columns] for row in rows]
                parts.append(f"### {path.stem}: {name}\n\n{about(found, name)}\n{grid(columns, body)}")
    return "\n".join(parts)


def by_wire(rows: list[Row]) -> dict[tuple[str, str], dict[int, Row]]:
    """Return rows by server and wire, then documents; the least CPU first."""
    found: dict[tuple[str, str], dict[int, Row]] = {}
    for row in rows:
        found.setdefault((row["server"], row["wire"]), {})[row["documents"]] = row
    return dict(sorted(found.items(), key=lambda item: _mean_log(item[1])))


def _mean_log(by_size: dict[int, Row]) -> float:
    return float(np.mean([np.log(row["cpu_ms"]) for row in by_size.values()]))


def table(found: Results) -> str:
    """Return the table of CPU per request by server, wire and number of documents."""
    sizes = sorted({row["documents"] for row in found["cpu"]})

    def of(row: Row | None) -> str:
        if row is None:
            return "–"
        low, high = row["cpu_ms_interval"]
        return f"{row['cpu_ms']:.2f} ({low:.2f}–{high:.2f})"

    rows = [
        (SERVERS[server][0], wire, *(of(by_size.get(size)) for size in sizes))
        for (server, wire), by_size in by_wire(found["cpu"]).items()
    ]
    return grid(("server", "wire", *(f"{size:,} documents" for size in sizes)), rows)


def picture(found: Results) -> Figure:
    """Draw CPU per request against documents: every wire of ours, the best of each other server."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.6), layout="constrained")
    FigureCanvasSVG(figure)
    panel = figure.subplots()
    drawn: set[str] = set()
    for (server, wire), by_size in by_wire(found["cpu"]).items():
        ours = server == "localrank"
        if server in drawn and not ours:
            continue
        drawn.add(server)
        rows = [by_size[size] for size in sorted(by_size)]
        middle = np.array([row["cpu_ms"] for row in rows])
        low, high = np.array([row["cpu_ms_interval"] for row in rows]).T
        panel.errorbar(
            [row["documents"] for row in rows],
            middle,
            # The interval of few repeats may end at the median.
            yerr=np.maximum([middle - low, high - middle], 0.0),
            label=f"{SERVERS[server][0].strip('*')}, {wire}",
            color=SERVERS[server][1],
            linestyle={"JSON": "--", "V2 binary": ":"}.get(wire, "-") if ours else "-",
            linewidth=2.2 if ours else 1.2,
            marker="o",
            markersize=4,
            capsize=2,
        )
    sizes = sorted({row["documents"] for row in found["cpu"]})
    panel.set(xscale="log", yscale="log", xlabel="documents", ylabel="ms of CPU per request")
    panel.set_xticks(sizes, [f"{size:,}" for size in sizes])
    panel.minorticks_off()
    panel.grid(alpha=0.3)
    panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    return figure


def draw(found: Results, path: Path) -> None:
    """Write the picture; the same results give the same bytes."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "localrank", "svg.fonttype": "none"}):
        picture(found).savefig(path, format="svg", metadata={"Date": None})


def filled(page: str, found: Results) -> str:
    """Return the page with its table."""
    return _TABLE.sub(lambda match: f"{match[1]}{about(found)}\n{table(found)}{match[2]}", page)


def main() -> int:
    page, found = DOCS / "operate" / "performance.md", results.read("peers")
    assert found is not None
    page.write_text(filled(page.read_text(), found))
    draw(found, DOCS / "images" / "cpu.svg")
    (results.FOLDER / "tables.md").write_text(every_table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
