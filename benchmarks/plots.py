"""Draw the plots of ``docs/performance.md`` from results, without measuring.

    python -m benchmarks.plots [--results benchmarks/results] [--images docs/images]

The same results give the same bytes. Plots without results are not drawn.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from benchmarks import results
from benchmarks.report import SERVERS, count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.results import Results, Row

IMAGES = Path(__file__).parents[1] / "docs" / "images"
#: A server has its colour and its mark in every plot.
MARKS = dict(zip(SERVERS, "osDv^P<>Xph", strict=True))
COLOURS = dict(
    zip(
        SERVERS,
        [
            "#c2185b",
            "#1f77b4",
            "#555555",
            "#2ca02c",
            "#ff7f0e",
            "#8c564b",
            "#9467bd",
            "#17becf",
            "#bcbd22",
            "#7f7f7f",
            "#555555",
        ],
        strict=True,
    )
)
STAGES = {
    "decode": "#4e79a7",
    "cloud": "#76b7b2",
    "sign": "#e15759",
    "route": "#f28e2b",
    "score": "#59a14f",
    "order": "#edc948",
    "encode": "#b07aa1",
}
#: Training queries among which a request of the plot of stages is routed, as elsewhere on the page.
ROUTED_AMONG = 1000


def name_of(server: str) -> str:
    return SERVERS[server].strip("*")


def plot(width: float, height: float, rows: int = 1, columns: int = 1, **shared: Any) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def best_wires(rows: list[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return every wire of ours and the best of each other server, by documents."""
    by_key: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: int(row["documents"])):
        by_key.setdefault((row["server"], row["wire"]), []).append(row)
    totals = {key: float(np.mean([np.log(row["cpu_ms"]) for row in found])) for key, found in by_key.items()}
    best = {
        server: min((key for key in by_key if key[0] == server), key=totals.__getitem__)
        for server, _ in by_key
    }
    kept = [key for key in by_key if key[0] == "localrank" or key == best[key[0]]]
    return {key: by_key[key] for key in sorted(kept, key=totals.__getitem__)}


def cpu(found: Sequence[Results]) -> Figure:
    """Draw CPU per request against documents, a panel for each model."""
    titles = ("linear model", "forest of 300 trees")
    figure, panels = plot(6.0 * len(found), 4.6, 1, len(found), sharey=True)
    for panel, title, one in zip(panels[0], titles, found, strict=False):
        lines = best_wires(one["cpu"])
        for (server, wire), rows in lines.items():
            ours = server == "localrank"
            sizes, middle = [row["documents"] for row in rows], np.array([row["cpu_ms"] for row in rows])
            low, high = np.array([row["cpu_ms_interval"] for row in rows]).T
            panel.errorbar(
                sizes,
                middle,
                # The interval of few repeats may end at the median.
                yerr=np.maximum([middle - low, high - middle], 0.0),
                label=f"{name_of(server)}, {wire}",
                color=COLOURS[server],
                linestyle={"JSON": "--", "V2 binary": ":"}.get(wire, "-") if ours else "-",
                marker=MARKS[server],
                markersize=4,
                linewidth=2.2 if ours else 1.2,
                capsize=2,
            )
        panel.set(xscale="log", yscale="log", xlabel="documents", title=title)
        ticks = sorted({row["documents"] for row in one["cpu"]})
        panel.set_xticks(ticks, [count(size) for size in ticks])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
        handles, labels = panel.get_legend_handles_labels()
        # In the order of the lines' right ends.
        order = sorted(range(len(labels)), key=lambda i: -float(list(lines.values())[i][-1]["cpu_ms"]))
        panel.legend(
            [handles[i] for i in order],
            [labels[i] for i in order],
            fontsize=8,
            frameon=False,
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
        )
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panels[0][0].set_ylabel("CPU per request, ms")
    return figure


def arrivals(found: Sequence[Results]) -> Figure:
    """Draw the peers' latency against the rate of arrivals, for 100 documents."""
    figure, panels = plot(9.0, 4.2, 1, 2, sharey=True)
    rows = [row for row in found[0]["latency"] if row["documents"] == 100 and row["p50_ms"] is not None]
    kept = best_wires([row for row in found[0]["cpu"] if row["documents"] == 100])
    for panel, figure_name, title in zip(panels[0], ("p50_ms", "p99_ms"), ("p50", "p99"), strict=True):
        for server, wire in kept:
            here = [
                row
                for row in rows
                if (row["server"], row["wire"]) == (server, wire) and row["answered"] >= 95
            ]
            if not here:
                continue
            ours = server == "localrank"
            middle = np.array([row[figure_name] for row in here])
            low, high = np.array([row[f"{figure_name}_interval"] for row in here]).T
            panel.errorbar(
                [row["rate"] for row in here],
                middle,
                yerr=np.maximum([middle - low, high - middle], 0.0),
                label=f"{name_of(server)}, {wire}",
                color=COLOURS[server],
                linestyle={"JSON": "--", "V2 binary": ":"}.get(wire, "-") if ours else "-",
                marker=MARKS[server],
                markersize=4,
                linewidth=2.2 if ours else 1.2,
                capsize=2,
            )
        rates = sorted({row["rate"] for row in rows})
        panel.set(xscale="log", yscale="log", xlabel="arrivals a second", title=title)
        panel.set_xticks(rates, [f"{rate:.0f}" for rate in rates])
        panel.minorticks_off()
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("latency, ms")
    figure.legend(
        *panels[0][0].get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False
    )
    return figure


def load(found: Sequence[Results]) -> Figure:
    """Draw latency against arrivals up to saturation, one and two workers."""
    rows = found[0]["load"]
    workers = sorted({row["workers"] for row in rows})
    figure, panels = plot(4.6 * len(workers), 3.8, 1, len(workers), sharex=True, sharey=True)
    for panel, number in zip(panels[0], workers, strict=True):
        for server in ("localrank", "idle"):
            here = [row for row in rows if (row["server"], row["workers"]) == (server, number)]
            for name, style in (("p50_ms", "-"), ("p99_ms", "--")):
                panel.plot(
                    [row["rate"] for row in here],
                    [row[name] for row in here],
                    style,
                    color=COLOURS[server],
                    marker=MARKS[server],
                    markersize=3.5,
                    label=f"{name_of(server)}, {name.removesuffix('_ms')}",
                )
        panel.set(
            xscale="log",
            yscale="log",
            xlabel="arrivals a second",
            title=f"{number} worker{'s' if number > 1 else ''}",
        )
        panel.grid(alpha=0.3)
        panel.xaxis.set_major_formatter(lambda value, _: count(value))
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panels[0][0].set_ylabel("latency, ms")
    figure.legend(
        *panels[0][0].get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False
    )
    return figure


def stages(found: Sequence[Results]) -> Figure:
    """Draw what share of a request each stage takes, by documents and features, on both wires."""
    by_shape = {(row["stage"], row["documents"], row["features"]): row["us"] for row in found[0]["stages"]}
    routed = {
        row["features"]: row["us"]
        for row in found[0]["routes"]
        if row["queries"] == ROUTED_AMONG and row["us"] is not None
    }
    widths = [width for width in sorted({features for _, _, features in by_shape}) if width in routed]
    sizes = sorted({documents for _, documents, _ in by_shape})
    figure, panels = plot(1.2 + 2.3 * len(widths), 5.4, 2, len(widths), sharey=True)
    for wire, row in zip(("npy", "json"), panels, strict=True):
        for width, panel in zip(widths, row, strict=True):
            bottom = np.zeros(len(sizes))
            parts = {
                stage: np.array(
                    [
                        # One document has no directions to be routed by.
                        routed[width] * (size > 1)
                        if stage == "route"
                        else by_shape[wire if stage == "decode" else stage, size, width]
                        for size in sizes
                    ]
                )
                for stage in STAGES
            }
            total = np.sum(list(parts.values()), axis=0)
            for stage, colour in STAGES.items():
                share = 100 * parts[stage] / total
                panel.bar(range(len(sizes)), share, bottom=bottom, color=colour, width=0.8, label=stage)
                bottom += share
            for place, microseconds in enumerate(total):
                panel.text(place, 102, span(microseconds), ha="center", fontsize=7)
            panel.set_xticks(range(len(sizes)), [count(size) for size in sizes], fontsize=8)
            panel.set_ylim(0, 112)
            panel.set_title(f"{'JSON' if wire == 'json' else wire}, {width} features", fontsize=9)
            panel.spines[["top", "right"]].set_visible(False)
        row[0].set_ylabel("share of CPU, %")
    for panel in panels[-1]:
        panel.set_xlabel("documents")
    figure.legend(
        *panels[0][0].get_legend_handles_labels(), loc="outside right center", fontsize=9, frameon=False
    )
    return figure


def span(microseconds: float) -> str:
    if microseconds < 1e3:
        return f"{microseconds:.0f} µs"
    return f"{microseconds / 1e3:.1f} ms" if microseconds < 1e4 else f"{microseconds / 1e3:.0f} ms"


def growth(found: Sequence[Results]) -> Figure:
    """Draw latency against training queries."""
    figure, panels = plot(6.6, 3.6)
    panel = panels[0][0]
    rows = found[0]["growth"]
    for kind, colour in zip(dict.fromkeys(row["kind"] for row in rows), COLOURS.values(), strict=False):
        here = [row for row in rows if row["kind"] == kind]
        for name, style in (("p50_ms", "o-"), ("p90_ms", "o:")):
            panel.plot(
                [row["queries"] for row in here],
                [row[name] for row in here],
                style,
                color=colour,
                markersize=4,
                label=f"{kind}, {name.removesuffix('_ms')}",
            )
        most = 1.5 * here[0]["p50_ms"]
        panel.axhline(most, color=colour, linewidth=0.8, linestyle="--", alpha=0.6)
    panel.plot([], [], color="grey", linewidth=0.8, linestyle="--", label="1.5 times the first p50")
    panel.set(xscale="log", xlabel="training queries", ylabel="latency, ms", ylim=(0, None))
    panel.xaxis.set_major_formatter(lambda value, _: count(value))
    panel.grid(alpha=0.3)
    figure.legend(*panel.get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    return figure


#: Each image of `benchmarks.report.PLOTS`, all results that it is made of, and by what; those behind the first may be absent.
PLOTS: dict[str, tuple[tuple[str, ...], Callable[[Sequence[Results]], Figure]]] = {
    "cpu": (("peers", "peers_trees"), cpu),
    "arrivals": (("peers",), arrivals),
    "load": (("load",), load),
    "stages": (("stages",), stages),
    "growth": (("growth",), growth),
}


def draw(folder: Path, images: Path) -> list[Path]:
    """Draw what there are results for; return the files."""
    drawn = []
    images.mkdir(parents=True, exist_ok=True)
    for name, (measured, make) in PLOTS.items():
        found = [one for one in (results.read(source, folder) for source in measured) if one is not None]
        if results.read(measured[0], folder) is None:
            continue
        path = images / f"{name}.svg"
        # Identifiers within the file are hashes; without a salt and with a date they differ each time. Text stays
        # text, which is smaller and can be searched.
        with mpl.rc_context({"svg.hashsalt": "localrank", "svg.fonttype": "none", "font.size": 9}):
            make(found).savefig(path, metadata={"Date": None, "Creator": None}, facecolor="white")
        drawn.append(path)
    return drawn


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=results.FOLDER)
    parser.add_argument("--images", type=Path, default=IMAGES)
    options = parser.parse_args()
    for path in draw(options.results, options.images):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
