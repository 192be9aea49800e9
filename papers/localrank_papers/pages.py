"""The long tables of docs/research/papers.md: one page for each paper, from what `localrank papers` wrote.

    localrank papers run 'lgmml-*' 'mhr-*' … --data OHSUMED --out results/OHSUMED
    python -m localrank_papers.pages results/OHSUMED results/MQ2008

Reads every ``NAME.json`` of the folders and writes ``docs/research/PAPER.md``; measures nothing. A paper without a file in the
folders keeps its page.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from localrank_papers.figures.running import EXPERIMENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    #: What the command writes for one figure, and its tables.
    Results: TypeAlias = dict[str, Any]

FOLDER = Path(__file__).parents[2] / "docs" / "research"
#: Longer tables are in the files that the command writes.
MOST_ROWS = 40


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages of all papers that the folders hold something of."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--out", type=Path, default=FOLDER)
    parsed = parser.parse_args(arguments)
    for paper, text in pages(parsed.folders).items():
        (parsed.out / f"{paper}.md").write_text(text)
        sys.stdout.write(f"{parsed.out / paper}.md\n")
    return 0


def pages(folders: Iterable[Path]) -> dict[str, str]:
    """Return the text of each paper's page, in the order of the catalogue."""
    found: dict[str, list[tuple[int, str, Results]]] = {}
    order = list(EXPERIMENTS)
    for folder in folders:
        for path in sorted(folder.glob("*.json")):
            one: Results = json.loads(path.read_text(encoding="utf-8"))
            if one.get("name") in EXPERIMENTS:
                paper = str(one["name"]).rpartition("-")[0]
                found.setdefault(paper, []).append((order.index(one["name"]), one["marks"]["data"], one))
    return {
        paper: _page(paper, [one for _, _, one in sorted(every, key=lambda entry: entry[:2])])
        for paper, every in found.items()
    }


def _page(paper: str, every: Sequence[Results]) -> str:
    made = [
        f"# {every[0]['paper']}",
        "*For researchers: every table of the paper, made again.*",
        "<!-- Made from what `localrank papers` wrote: python -m localrank_papers.pages DIR… -->",
        (
            f"Tables of the experiments that were run, each on the data that it names; the summary is in [papers.md](papers.md). `localrank papers run '{paper}-*' --data DIR "
            "--out DIR` makes them with plots."
        ),
    ]
    said: set[str] = set()
    for one in every:
        heading = f"## {one['figure']}: {one['title']}"
        if heading not in said:
            made.append(heading)
            said.add(heading)
        marks = one["marks"]
        made += [
            f"`localrank papers run {one['name']}`. Data: {marks['data']}.",
            *one["sentences"],
            f"Protocol: {marks['protocol']}. Not run: {marks['not_run'].rstrip('.') or 'nothing'}.",
        ]
        for table in one["tables"]:
            made += _table(table)
    return "\n\n".join(without_repeats(made)) + "\n"


def without_repeats(paragraphs: Sequence[str]) -> list[str]:
    """Return the paragraphs of a page; a table or protocol that an earlier figure has refers to it.

    Several figures of a paper come from the same fits.
    """
    figures: dict[str, str] = {}
    kept: list[str] = []
    figure, repeated = "", False
    for text in paragraphs:
        if text.startswith("## "):
            figure = text.removeprefix("## ").partition(":")[0]
        before = figures.setdefault(text, figure)
        if text.startswith("|"):
            repeated = before != figure
            if repeated:
                # Its title stands above it.
                kept[-1] += f": as under {before}."
                continue
        elif text.startswith("Protocol: ") and before != figure:
            kept.append(f"Protocol: as under {before}.")
            continue
        elif repeated and before != figure and not text.startswith(("*", "`")):
            # The caption of a table that is not shown.
            continue
        else:
            repeated = False
        kept.append(text)
    return kept


def _table(table: Results) -> list[str]:
    if len(table["rows"]) > MOST_ROWS:
        return [f"*{table['title']}*: {len(table['rows'])} rows, in `NAME.json`."]
    lines = [table["header"], ["---"] * len(table["header"]), *table["rows"]]
    text = "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)
    return [f"*{table['title']}*", text, *([table["caption"]] if table["caption"] else [])]


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) >= 1e-4 or value == 0 else f"{value:.0e}"
    # A bar would end the cell.
    return str(value).replace("|", "\\|")


if __name__ == "__main__":
    raise SystemExit(main())
