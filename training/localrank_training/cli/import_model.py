"""``localrank models import``: publish a model that another library learned."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Annotated

import typer

from localrank.commands.output import print_json, print_notes
from localrank.commands.wrong_use import not_one_of
from localrank_training.cli.arguments import Promote, say
from localrank_training.cli.output import AsJson, ModelsDir, given, progress, where
from localrank_training.data.tables import Columns

#: Bytes of a file of names.
_LARGEST_NAMES = 1 << 24


def import_model(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Model file that the other library saved.")],
    *,
    name: Annotated[str, typer.Option(help="The model's name.")],
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="lightgbm, xgboost, ranklib or catboost-json (default: detected from the file).",
            show_default=False,
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Names of the features: a file with one per line, or a list with commas.", callback=given
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Documents on which scores are compared: LETOR text or tables (default: synthetic ones).",
            callback=given,
        ),
    ] = None,
    expected: Annotated[
        str | None,
        typer.Option(
            help="File with the scores of the original library for the documents of --data, in their order.",
            callback=given,
        ),
    ] = None,
    unverified: Annotated[
        bool,
        typer.Option(
            "--unverified",
            help="Publish the model even if its scores cannot be compared with the original library.",
        ),
    ] = False,
    promote: Promote = False,
    columns: Columns,
    models_dir: ModelsDir = "models",
    as_json: AsJson = False,
) -> None:
    """Publish a model of LightGBM, XGBoost, CatBoost or RankLib as a global model.

    Its scores are compared with those of its own library if that is installed, or with those in a file.

    Examples:
      localrank models import model.txt --name web --promote
      localrank models import model.json --name web --features names.txt
      localrank models import lambdamart.txt --name web --data test.txt --expected scores.txt
    """
    from localrank.errors import InvalidConfiguration
    from localrank.registry.versions import Registry
    from localrank_training.data.reading import read
    from localrank_training.origins import FORMATS, read_model
    from localrank_training.origins.importing import publish

    if form is not None and form not in FORMATS:
        raise InvalidConfiguration(f"--format: {not_one_of(form, FORMATS)}")
    registry = Registry(Path(models_dir))
    registry.check_publishable(name)
    model = read_model(Path(file), form, None if features is None else _names(features))
    queries = None
    if data is not None:
        with progress() as advance:
            queries = read(
                [data],
                progress=advance,
                n_features=model.n_features,
                columns=columns.of(model.features),
                say=say,
            )
    done = publish(
        registry,
        name,
        model,
        Path(file),
        data=queries,
        expected=None if expected is None else Path(expected),
        unverified=unverified,
    )
    if promote:
        registry.promote(name, done.reference.version)
    if as_json:
        print_json(
            {
                "model": name,
                "version": done.reference.version,
                "format": model.format,
                "features": model.n_features,
                "check": None if done.check is None else done.check.to_json(),
                "notes": done.notes,
                "promoted": promote,
            }
        )
        return
    print_notes(done.notes, err=True)
    if done.check is not None:
        typer.echo(str(done.check))
    typer.echo(f"published {name} version {done.reference.version} in {done.reference.path}")
    if not promote:
        version = done.reference.version
        typer.echo(f"to serve it: localrank models promote {name} {version}{where(models_dir)}")


def _names(given_names: str) -> list[str]:
    """Read names from a file, one per line, or from the text itself."""
    from localrank.disk import read_plain
    from localrank.errors import InvalidData

    path = Path(given_names)
    try:
        lines = read_plain(path, _LARGEST_NAMES).decode().splitlines()
    except OSError as error:
        # A list may be longer than the name of a file may be.
        if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}:
            return [part.strip() for part in given_names.split(",")]
        raise InvalidData(f"{path}: cannot read names of features: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InvalidData(f"{path}: expected names of features, found bytes that are not text") from None
    return [line.strip() for line in lines if line.strip()]
