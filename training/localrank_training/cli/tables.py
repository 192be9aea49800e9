"""``localrank tables publish``: features of items by id, for models to look up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from localrank.commands.output import print_json
from localrank_training.cli.arguments import say
from localrank_training.cli.output import AsJson, ModelsDir, progress


def publish_table(
    data: Annotated[
        list[str],
        typer.Argument(
            help="A row for each item: CSV, JSON lines, Parquet, Arrow, or a folder of these.",
            show_default=False,
        ),
    ],
    *,
    id_column: Annotated[
        str, typer.Option("--id", metavar="COLUMN", help="Column of the ids.", show_default=False)
    ],
    name: Annotated[str, typer.Option(help="The name of the table.", show_default=False)],
    ignore: Annotated[
        str, typer.Option(metavar="COLUMNS", help="Columns that are not features, separated by commas.")
    ] = "",
    category: Annotated[
        str,
        typer.Option(
            metavar="COLUMNS", help="Columns whose numbers are categories, not amounts, separated by commas."
        ),
    ] = "",
    date: Annotated[
        str,
        typer.Option(
            metavar="COLUMNS",
            help="Columns of dates that become numbers, days since 1970, separated by commas.",
        ),
    ] = "",
    models_dir: ModelsDir = "models",
    as_json: AsJson = False,
) -> None:
    """Publish the next generation of a table. Models that were trained with the table look into it from then on.

    Services notice it by themselves. A generation that lacks a column of a model is not looked into by this model.

    Examples:
      localrank tables publish items.parquet --id sku --name items
      localrank tables publish items.csv --id sku --name items --ignore title,url
    """
    from datetime import UTC, datetime

    from localrank.errors import InvalidConfiguration
    from localrank.features.feature import TABLE_NAME
    from localrank.registry.tables import publish, tables_in
    from localrank_training.data.items import read_items

    if not TABLE_NAME.fullmatch(name):
        raise InvalidConfiguration(
            f"--name: expected a name of letters, digits, '.', '_' and '-' that starts with a letter or digit, found "
            f"{name!r:.80}"
        )
    tables = tables_in(Path(models_dir))
    tables.check_publishable(name)
    with progress() as advance:
        rows = read_items(
            data,
            id_column,
            ignore=_names(ignore),
            category=_names(category),
            date=_names(date),
            progress=advance,
            say=say,
        )
    reference = publish(
        tables,
        name,
        rows.columns,
        rows.ids,
        rows.values,
        created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        source={"data": data, "id": id_column},
    )
    if as_json:
        print_json(
            {
                "name": name,
                "generation": reference.version,
                "items": len(rows.ids),
                "columns": [one.name for one in rows.columns],
            }
        )
        return
    typer.echo(
        f"published {name} generation {reference.version} in {reference.path}: {len(rows.ids)} items, "
        f"{len(rows.columns)} columns"
    )


def _names(listed: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in listed.split(",") if name.strip())
