"""What commands have found, for people: figures once, as values; the terminal, ``--json`` and one page show them.

Example:
    plot = Plot(
        "Quality by number of clusters",
        "More than five clusters gain nothing.",
        x=Axis("clusters", log=True),
        y=Axis("NDCG@10"),
        marks=[Line("local", [1, 2, 5, 10], means, low, high), Level("one model", 0.46)],
        intervals="95 % intervals over 105 queries",
    )
    page = Page("LocalRank, Figure 6", "What clusters are worth.", [plot, Table("Means", header, rows)]).html()
    file = svg(plot)
"""

from localrank_training.report.html import Facts, Folded, Items, Page, Part, Pre, Section, Table
from localrank_training.report.plots import Axis, Bars, Dots, Level, Line, Mark, Plot, png, svg

__all__ = [
    "Axis",
    "Bars",
    "Dots",
    "Facts",
    "Folded",
    "Items",
    "Level",
    "Line",
    "Mark",
    "Page",
    "Part",
    "Plot",
    "Pre",
    "Section",
    "Table",
    "png",
    "svg",
]
