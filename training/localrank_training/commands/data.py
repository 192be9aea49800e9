"""``localrank data``: judged queries before they are learned from."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated

import typer

from localrank_training.commands.output import AsJson, print_json

__all__ = ["app"]

app = typer.Typer(
    name="data",
    help="Inspect, convert, split and synthesize judged queries.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(
    epilog="Example: localrank data synthesize --queries 200 --documents 30 --features 10 --out train.txt "
    "&& localrank data synthesize --queries 100 --documents 30 --features 10 --sample 1 --out test.txt"
)
def synthesize(
    *,
    queries: Annotated[int, typer.Option(min=1, help="How many queries.")],
    documents: Annotated[str, typer.Option(help="Documents per query: a number, or a range such as 20-40.")],
    features: Annotated[int, typer.Option(min=1, help="Columns, those that never matter included.")],
    out: Annotated[str, typer.Option(help="File to write: .txt, .txt.gz, .txt.zst or .parquet.")],
    kinds: Annotated[int, typer.Option(min=1, help="Latent kinds of queries.")] = 4,
    separation: Annotated[
        float, typer.Option(min=0, max=1, help="How much of what is relevant is each kind's own.")
    ] = 1.0,
    shapes: Annotated[
        float, typer.Option(min=0, max=1, help="How much of the clouds' directions is each kind's own.")
    ] = 1.0,
    alike: Annotated[
        bool, typer.Option("--alike", help="Clouds of all kinds look alike; the same as --shapes 0.")
    ] = False,
    noise: Annotated[float, typer.Option(min=0, help="How much of a label no feature explains.")] = 0.3,
    noise_features: Annotated[int, typer.Option(min=0, help="Columns that never matter.")] = 0,
    levels: Annotated[int, typer.Option(min=2, help="Labels 0 to LEVELS - 1.")] = 5,
    shares: Annotated[
        str | None, typer.Option(help="How frequent each label is, from 0 up: 60,30,10.")
    ] = None,
    missing: Annotated[float, typer.Option(min=0, max=1, help="Share of values that are missing.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the kinds and the queries.")] = 0,
    sample: Annotated[
        int, typer.Option(min=0, help="Other numbers: other queries of the same kinds, to test on.")
    ] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write made-up queries whose hidden kinds differ in what is relevant and in the shape of their clouds.

    The kind of each query stands in the comments.
    """
    from localrank_training.data.synthetic import Recipe
    from localrank_training.data.synthetic import synthesize as make
    from localrank_training.data.writing import write

    recipe = Recipe(
        documents=_range(documents),
        features=features,
        kinds=kinds,
        separation=separation,
        shapes=0.0 if alike else shapes,
        noise=noise,
        noise_features=noise_features,
        levels=levels,
        label_shares=None if shares is None else _shares(shares),
        missing=missing,
    )
    made, kind_of = make(queries, recipe, seed=seed, sample=sample)
    comments = tuple(f"kind={kind_of[query]}" for query in made.query_of)
    write(replace(made, comments=comments), out, overwrite=overwrite)
    if as_json:
        print_json({"out": out, "queries": len(made), "documents": made.n_docs, "features": made.n_features})
    else:
        typer.echo(f"{out}: {len(made)} queries, {made.n_docs} documents, {made.n_features} features")


def _range(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if match is None:
        raise typer.BadParameter(f"expected a number or a range such as 20-40, found {text!r}")
    return int(match[1]), int(match[2] or match[1])


def _shares(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(share) for share in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"expected numbers with commas between, found {text!r}") from None
