"""``localrank extend``: more judged queries for a published model, without learning it again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from localrank.commands.output import print_json, print_table
from localrank_training.cli.arguments import Model, Promote, say
from localrank_training.cli.output import AsJson, ModelsDir, progress, where
from localrank_training.data.tables import Columns

#: More clusters than this are summed up in a line.
_CLUSTERS_SHOWN = 20


def extend(
    model: Model,
    data: Annotated[
        list[str],
        typer.Argument(
            help="New judged queries: LETOR text, CSV, JSON lines, Parquet, Arrow, or a folder of these."
        ),
    ],
    *,
    learned_from: Annotated[
        str | None,
        typer.Option(
            "--learned-from",
            metavar="DATA",
            help="The data that the model was trained on. With it, the model is also retrained on everything, "
            "and the two are compared.",
            show_default=False,
        ),
    ] = None,
    columns: Columns,
    models_dir: ModelsDir = "models",
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Accept queries that the model was trained on or extended by; they then count twice.",
        ),
    ] = False,
    promote: Promote = False,
    workers: Annotated[int, typer.Option(min=0, help="Processes for --learned-from; 0 is one per core.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Add new judged queries to the clusters, hash tables and ranges of a model, and publish the next version.

    Scorers do not change, so this takes seconds. From then on the new queries also help to route queries that are like
    them. If there are many new ones, or if they are unlike the old ones, train again: localrank train OLD NEW, or with
    --warm MODEL.

    Examples:
      localrank extend web data/october.txt --promote
      localrank extend web@3 data/october.csv --learned-from data/train.csv
    """
    from dataclasses import replace

    from localrank.artifact import load
    from localrank.registry.versions import Registry
    from localrank_training.data.preparing import say_unseen
    from localrank_training.data.reading import read
    from localrank_training.parallel.processes import available_cores
    from localrank_training.publishing.extend import against_retraining, publish_extended
    from localrank_training.publishing.extend import extend as extend_model

    registry = Registry(Path(models_dir))
    reference = registry.resolve(model)
    registry.check_publishable(reference.name)
    artifact = load(reference.path)
    n_features = artifact.ranker.contract.n_features
    columns = replace(columns.of(artifact.ranker.contract.features), models_dir=models_dir)
    with progress() as advance:
        queries = read(data, progress=advance, n_features=n_features, columns=columns, say=say)
        started = time.perf_counter()
        extended = extend_model(artifact, queries, again=again, progress=advance)
        say_unseen(extended.queries, artifact.ranker.contract, say)
        published = publish_extended(registry, artifact, extended)
        seconds = time.perf_counter() - started
        retrained = None
        if learned_from is not None:
            known = read(learned_from, progress=advance, n_features=n_features, columns=columns, say=say)
            retrained = against_retraining(
                artifact, known, queries, workers=workers or available_cores(), progress=advance
            )
    if promote:
        registry.promote(published.name, published.version)
    if as_json:
        print_json(
            {
                "model": published.name,
                "version": published.version,
                "from": reference.version,
                "promoted": promote,
                "seconds": seconds,
                **extended.to_json(),
                "retrained": None if retrained is None else retrained.to_json(),
            }
        )
        return
    joined, sizes = extended.joined, [cluster.size for cluster in artifact.manifest.clusters]
    typer.echo(f"{len(queries)} queries, {queries.n_docs} documents")
    if len(joined) <= _CLUSTERS_SHOWN:
        rows = [
            (number, size, int(more)) for number, (size, more) in enumerate(zip(sizes, joined, strict=True))
        ]
        print_table(("cluster", "queries before", "joined"), rows)
    else:
        typer.echo(f"{int(joined.sum())} joined {int((joined > 0).sum())} of {len(joined)} clusters")
    if alone := int((extended.clusters < 0).sum()):
        typer.echo(f"{alone} joined no cluster, because they have one document or only equal ones")
    if extended.near is not None and extended.usual is not None:
        typer.echo(
            f"median similarity to the most similar training query: {extended.near:.3f}; among the training "
            f"queries themselves: {extended.usual:.3f}"
        )
    for note in extended.notes:
        typer.echo(note)
    if retrained is not None:
        typer.echo(
            f"\ncompared with a model retrained on everything, on {retrained.queries} new queries that "
            "neither model has seen"
        )
        print_table(
            ("metric", "extended", "retrained", "difference", "95 % interval"),
            [
                (one.metric, one.candidate, one.baseline, f"{one.difference:+.4f}", one.interval_text)
                for one in retrained.comparisons
            ],
        )
        typer.echo(f"their orders agree with Kendall's tau {retrained.tau:.3f} in the mean")
    typer.echo(
        f"\npublished {published.name} version {published.version} in {published.path}, {seconds:.1f} s"
    )
    if not promote:
        typer.echo(
            f"to serve it: localrank models promote {published.name} {published.version}{where(models_dir)}"
        )
