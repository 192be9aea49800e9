"""The tables and the picture of docs/research/results.md, from what `benchmarks.quality` measured.

    python -m benchmarks.quality_page

Reads ``benchmarks/results/quality.json``, measures nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import results
from benchmarks.contestants import METRICS
from benchmarks.quality import BASELINES, lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOCS = Path(__file__).parents[1] / "docs"
NAMES = {
    "auto": "default",
    "global": "RankSVM (`--method global`)",
    "lambdamart": "`--learner lambdamart`",
    "lightgbm": "LightGBM lambdarank, tuned",
    "catboost": "CatBoost YetiRank, tuned",
    "better": "RankSVM or lambdamart, by validation",
}
_COLOURS = dict(zip(BASELINES, ("#4878a8", "#5a9e6f", "#c9803b", "#a05195", "#555555"), strict=True))


def leading(found: results.Results) -> list[str]:
    """Return the leading table: the default against each baseline, all sets together."""
    rows = [row for row in found["quality"] if row["set"] == "pooled"]
    made = [
        "| all sets | MAP | NDCG@10 | the default is better by: MAP | NDCG@10 |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        figures = [f"{row[metric]:.4f}" for metric in METRICS]
        cells = [NAMES[row["contestant"]], *figures, *(_difference(row, metric) for metric in METRICS)]
        made.append("| " + " | ".join(cells) + " |")
    return made


def _difference(row: results.Row, metric: str) -> str:
    interval = row.get(f"{metric} interval")
    if interval is None:
        return ""
    return f"{row[f'{metric} difference']:+.4f} [{interval[0]:+.4f}, {interval[1]:+.4f}]"


def gates(found: results.Results) -> list[str]:
    """Return one line per gate."""
    return [f"- {'passed' if row['holds'] else '**missed**'}: {row['gate']}" for row in found["gates"]]


def filled(page: str, found: results.Results) -> str:
    """Return the page with its tables."""
    blocks = {
        "leading": leading(found),
        "gates": gates(found),
        "sets": list(lines(found["quality"])),
    }
    if "samples" in found:
        blocks["samples"] = list(lines(found["samples"]))
    for name, made in blocks.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, after = page.index(begin) + len(begin), page.index(end)
        page = page[:before] + "\n".join(made) + "\n" + page[after:]
    return page


def picture(found: results.Results) -> Figure:
    """Draw what the default is better by, with intervals: a row for each set, a colour for each baseline."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 4.6), layout="constrained")
    FigureCanvasSVG(figure)
    panels = figure.subplots(1, 2, sharey=True)
    sets = list(dict.fromkeys(row["set"] for row in found["quality"]))
    for panel, metric in zip(panels, METRICS, strict=True):
        for number, baseline in enumerate(BASELINES):
            rows = [
                row
                for row in found["quality"]
                if row["contestant"] == baseline and row.get(f"{metric} interval")
            ]
            places = np.array([sets.index(row["set"]) for row in rows]) + (number - 2) * 0.14
            middle = np.array([row[f"{metric} difference"] for row in rows])
            ends = np.array([row[f"{metric} interval"] for row in rows]).reshape(-1, 2).T
            panel.errorbar(
                middle,
                places,
                xerr=[middle - ends[0], ends[1] - middle],
                fmt="o",
                markersize=4,
                capsize=2,
                color=_COLOURS[baseline],
                label=NAMES[baseline].replace("`", ""),
            )
        panel.axvline(0.0, color="black", linewidth=0.8)
        panel.set(xlabel=f"the default is better by, {metric}", yticks=range(len(sets)), yticklabels=sets)
        panel.grid(axis="x", alpha=0.3)
    panels[0].invert_yaxis()
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small"
    )
    return figure


def main() -> int:
    """Write the page and the picture."""
    import matplotlib as mpl

    found = results.read("quality")
    if found is None:
        sys.exit("benchmarks/results/quality.json: run benchmarks.quality report --out first")
    page = DOCS / "research" / "results.md"
    page.write_text(filled(page.read_text(), found))
    with mpl.rc_context({"svg.hashsalt": "localrank", "svg.fonttype": "none"}):
        picture(found).savefig(DOCS / "images" / "quality.svg", format="svg", metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
