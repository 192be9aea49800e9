from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np

from localrank_papers.figures.side_by_side import Kind, side_by_side
from localrank_training.pages import Axis, Plot, drawing


def _height(dot: ET.Element) -> float:
    if dot.tag.endswith("circle"):
        return float(dot.attrib["cy"])
    return float(np.mean([float(point.split(",")[1]) for point in dot.attrib["points"].split()]))


def test_dots_of_one_category_are_nearer_to_each_other_than_to_those_of_the_next() -> None:
    names = ["first", "second", "third"]
    kinds = [Kind(f"kind {number}", names, [0.1, 0.2, 0.3]) for number in range(3)]
    plot = Plot("t", "c", x=Axis("", categories=names), y=Axis("y"), marks=side_by_side(names, kinds), sideways=True)  # fmt: skip

    root = ET.fromstring(drawing(plot).svg)

    groups = [group for group in root.iter() if group.get("class", "").startswith("tone")]
    heights = np.array([[_height(dot) for dot in group] for group in groups if len(group) == len(names)])
    assert (3, 3) == heights.shape
    step = np.diff(heights, axis=0).max()
    apart = (heights[:, 1:].min(axis=0) - heights[:, :-1].max(axis=0)).min()
    assert step < apart
