"""``localrank rank``: one score per input line, in input order, as RankLib and svm_rank print them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from localrank_training.cli.arguments import Model, say
from localrank_training.cli.output import ModelsDir, given, progress
from localrank_training.data.tables import Columns
from localrank_training.data.writing import whole_file


def rank(
    model: Model,
    data: Annotated[
        list[str], typer.Argument(help="LETOR text, CSV, JSON lines, Parquet, Arrow, or a folder of these.")
    ],
    *,
    out: Annotated[
        str | None, typer.Option(help="File for the scores (default: standard output).", callback=given)
    ] = None,
    columns: Columns,
    models_dir: ModelsDir = "models",
) -> None:
    """Print one score per input line, in input order; higher is better.

    Labels are not used, and a table may lack them. The documents of a query may stand anywhere in the file. The scores
    are those that the service answers, printed with enough digits to read back the same numbers.

    Examples:
      localrank rank demo data/test.txt
      localrank rank web@challenger data/test.txt.gz --out scores.txt
    """
    from dataclasses import replace

    import numpy as np
    from threadpoolctl import threadpool_limits

    from localrank.artifact import load
    from localrank.registry.versions import Registry
    from localrank_training.data.preparing import aligned
    from localrank_training.data.reading import read

    columns = replace(columns, judged=False, models_dir=models_dir)
    with progress() as advance, threadpool_limits(1):
        ranker = load(Registry(Path(models_dir)).resolve(model).path).ranker
        contract = ranker.contract
        columns = columns.of(contract.features)
        queries = aligned(
            read(data, progress=advance, n_features=contract.n_features, columns=columns, say=say),
            contract,
            say,
        )
        scores = np.empty(queries.n_docs)
        for query in range(len(queries)):
            span = queries.span(query)
            scores[queries.lines[span]] = ranker.rank(queries.documents[span]).scores
            advance("ranking", query + 1, len(queries))
    lines = (f"{score!r}\n" for score in scores.tolist())
    if out is None:
        sys.stdout.writelines(lines)
    else:
        with whole_file(Path(out)) as file:
            file.writelines(lines)
