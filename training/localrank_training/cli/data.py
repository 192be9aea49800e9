"""``localrank data``: look at judged queries, convert them, split them, make them up, take them from a log."""

from __future__ import annotations

import re
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from localrank.commands.output import print_json, print_table
from localrank.errors import InvalidConfiguration
from localrank_training.cli.arguments import Overwrite, SkipBadFiles, add, say
from localrank_training.cli.clicks import clicks
from localrank_training.cli.collect import collect
from localrank_training.cli.export import export
from localrank_training.cli.join import join
from localrank_training.cli.output import AsJson, given, progress
from localrank_training.data.tables import Columns

if TYPE_CHECKING:
    from collections.abc import Iterator


app = typer.Typer(
    name="data",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Inspect, convert, split, synthesize judged queries, and make them from clicks or a service's log.",
)

Data = Annotated[
    list[str],
    typer.Argument(
        help="LETOR text, CSV or JSON lines (plain, gzip or zstd), Parquet, Arrow, or folders of these.",
        show_default=False,
    ),
]


class To(StrEnum):
    """The formats, as options."""

    text = "text"
    gz = "gz"
    zst = "zst"
    parquet = "parquet"
    arrow = "arrow"


def inspect(
    data: Data,
    *,
    columns: Columns,
    rows: Annotated[int, typer.Option("--features", min=0, help="Print at most this many features.")] = 60,
    as_json: AsJson = False,
) -> None:
    """Describe judged queries: sizes, labels, features, and what looks wrong.

    Examples:
      localrank data inspect data/train.txt
      localrank data inspect data/S1.txt.gz data/S2.txt.gz --json
    """
    from localrank_training.data.inspection import inspect as look
    from localrank_training.data.reading import read
    from localrank_training.evaluation.leaks import leaks_of

    with progress() as advance:
        queries = read(data, progress=advance, columns=columns, say=say)
        found = look(queries, progress=advance)
    leaks = leaks_of(queries)
    if as_json:
        from dataclasses import asdict

        print_json(asdict(found) | {"leaks": leaks.to_json()})
        return
    from localrank_training.report.terminal import of_inspection, show

    show(of_inspection(found, leaks, rows))


def convert(
    data: Data,
    *,
    out: Annotated[
        str,
        typer.Option(help="The file to write.", show_default=False, callback=given),
    ],
    to: Annotated[To | None, typer.Option(help="The format (default: by the name of --out).")] = None,
    dense: Annotated[
        bool,
        typer.Option(
            "--dense", help="Write zeros into text (default: the shorter form); --sparse leaves them out."
        ),
    ] = False,
    columns: Columns,
    skip_bad_files: SkipBadFiles = False,
    overwrite: Overwrite = False,
) -> None:
    """Write judged queries in another format; values, labels, order, comments and names stay the same.

    Examples:
      localrank data convert data/train.txt --out train.parquet
      localrank data convert log.csv --label grade --qid query --out train.txt
      localrank data convert S1.txt S2.txt S3.txt --out train.txt.zst
      localrank data convert huge.txt.gz --out huge.arrow
    """
    from localrank_training.data.writing import convert as write

    with progress() as advance:
        documents = write(
            data,
            out,
            to=None if to is None else to.value,
            sparse=columns.sparse or (False if dense else None),
            overwrite=overwrite,
            progress=advance,
            columns=columns,
            say=say,
            skip=skip_bad_files,
        )
    typer.echo(f"{out}: {documents} documents")


def split(
    data: Data,
    *,
    out: Annotated[str, typer.Option(help="A new folder for the files.", show_default=False, callback=given)],
    fractions: Annotated[
        str | None, typer.Option(help="Shares of the queries for train,test or train,validation,test.")
    ] = None,
    folds: Annotated[int | None, typer.Option(help="K-fold cross-validation: Fold1/ … FoldK/.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the shuffle.")] = 0,
    columns: Columns,
    to: Annotated[
        To | None,
        typer.Option(help="The format of the files (default: text, or parquet for what text does not keep)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Deal whole queries at random into files for training, validation and test.

    Examples:
      localrank data split data.txt --out parts --fractions 0.6,0.2,0.2
      localrank data split data.txt --out folds --folds 5 --seed 1
    """
    from localrank_training.data.writing import split as deal

    with progress() as advance:
        report = deal(
            data,
            out,
            fractions=None if fractions is None else _numbers(fractions, "--fractions"),
            folds=folds,
            seed=seed,
            to=None if to is None else to.value,
            progress=advance,
            columns=columns,
            say=say,
        )
    if as_json:
        print_json(
            {name: {"queries": queries, "documents": docs} for name, (queries, docs) in report.items()}
        )
    else:
        print_table(("file", "queries", "documents"), [(name, *sizes) for name, sizes in report.items()])


def synthesize(
    *,
    queries: Annotated[int, typer.Option(min=1, help="How many queries.")],
    documents: Annotated[str, typer.Option(help="Documents per query: a number, or a range such as 20-40.")],
    features: Annotated[
        int, typer.Option(min=1, help="Number of features, including those that do not matter.")
    ],
    out: Annotated[
        str, typer.Option(help="File to write: .txt, .txt.gz, .txt.zst or .parquet.", callback=given)
    ],
    kinds: Annotated[int, typer.Option(min=1, help="How many kinds of queries.")] = 4,
    separation: Annotated[
        float, typer.Option(min=0, max=1, help="How much the kinds differ in what is relevant, from 0 to 1.")
    ] = 1.0,
    shapes: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="How much the kinds differ in the directions in which their documents vary, from 0 to 1.",
        ),
    ] = 1.0,
    alike: Annotated[
        bool,
        typer.Option(
            "--alike", help="The documents of all kinds vary in the same directions; the same as --shapes 0."
        ),
    ] = False,
    noise: Annotated[float, typer.Option(min=0, help="Noise in the labels that no feature explains.")] = 0.3,
    noise_features: Annotated[int, typer.Option(min=0, help="Number of features that do not matter.")] = 0,
    levels: Annotated[int, typer.Option(min=2, help="Labels 0 to LEVELS - 1.")] = 5,
    shares: Annotated[
        str | None, typer.Option(help="Shares of the labels, from label 0 up, such as 60,30,10.")
    ] = None,
    missing: Annotated[float, typer.Option(min=0, max=1, help="Share of the values that are missing.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the kinds and of the queries.")] = 0,
    sample: Annotated[
        int,
        typer.Option(
            min=0, help="Another number makes other queries of the same kinds, such as test queries."
        ),
    ] = 0,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write synthetic queries of several hidden kinds.

    Kinds differ in what is relevant and in the directions in which documents vary. The comments name the kind of each
    query. Queries are written while they are drawn, so memory does not depend on how many there are.

    Examples:
      localrank data synthesize --queries 200 --documents 30 --features 10 --out train.txt
      localrank data synthesize --queries 100 --documents 30 --features 10 --sample 1 --out test.txt
    """
    from localrank_training.data.synthetic import Drawn, Recipe
    from localrank_training.data.writing import write_drawn

    with _naming_flags():
        recipe = Recipe(
            documents=_range(documents, "--documents"),
            features=features,
            kinds=kinds,
            separation=separation,
            shapes=0.0 if alike else shapes,
            noise=noise,
            noise_features=noise_features,
            levels=levels,
            label_shares=None if shares is None else tuple(_numbers(shares, "--shares")),
            missing=missing,
        )
    drawn = Drawn(queries, recipe, seed=seed, sample=sample)
    write_drawn(drawn, out, overwrite=overwrite)
    n_docs = int(drawn.offsets[-1])
    if as_json:
        print_json({"out": out, "queries": queries, "documents": n_docs, "features": features})
    else:
        typer.echo(f"{out}: {queries} queries, {n_docs} documents, {features} features")


for command in (inspect, convert, split, export, clicks, join, collect, synthesize):
    add(app, command)


@contextmanager
def _naming_flags() -> Iterator[None]:
    """Call the fields of a recipe what the command line calls them."""
    try:
        yield
    except InvalidConfiguration as error:
        field, _, rest = str(error).partition(": ")
        flag = "shares" if field == "label_shares" else field.replace("_", "-")
        raise InvalidConfiguration(f"--{flag}: {rest}") from None


def _range(text: str, option: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if match is None:
        raise typer.BadParameter(
            f"expected a number or a range such as 20-40, found {text!r}", param_hint=option
        )
    return int(match[1]), int(match[2] or match[1])


def _numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"expected numbers with commas between, found {text!r}", param_hint=option
        ) from None
