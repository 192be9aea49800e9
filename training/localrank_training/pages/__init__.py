"""Pages that people read: one self-contained HTML file of sentences, tables and plots, and plots as SVG files.

    plot = Plot(
        "Quality by number of clusters",
        "More than five clusters gain nothing.",
        x=Axis("clusters", log=True),
        y=Axis("NDCG@10"),
        marks=[Line("local", [1, 2, 5, 10], means, low, high), Level("one model", 0.46)],
        intervals="95 % intervals over 105 queries",
    )
    Page("LocalRank, Figure 6", "What clusters are worth.", [plot, Table("Means", header, rows)]).write(path)
    drawing(plot).write(svg_path)

Pages run no scripts and ask no other host. They follow the reader's light or dark setting, fit a phone and print. Nothing
here knows what is being reported.
"""

from localrank_training.pages.drawing import Drawing, drawing
from localrank_training.pages.page import Facts, Folded, Items, Page, Part, Pre, Section, Table
from localrank_training.pages.plot import Axis, Bars, Dots, Level, Line, Mark, Plot

__all__ = [
    "Axis",
    "Bars",
    "Dots",
    "Drawing",
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
    "drawing",
]
