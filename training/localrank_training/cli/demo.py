"""``localrank demo``: the demo model, from its synthetic data to a published version, and served if asked for."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from localrank_training.cli.output import ModelsDir, progress

#: Fixed, so that the demo model is always the same.
_CREATED = "2026-01-01T00:00:00Z"
#: What the method chooses from. Four kinds of queries want four clusters; the method's own candidates leave four out.
_OPEN = ("clustering.candidates=[1, 2, 3, 4, 5]", "learner.C=[10, 100, 1000, 10000]")


def demo(
    context: typer.Context,
    models_dir: ModelsDir = "models",
    *,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve", help="Publish into a new temporary folder, and serve that until it is interrupted."
        ),
    ] = False,
    port: Annotated[int, typer.Option(min=1, max=65535, help="With --serve: the port.")] = 8080,
) -> None:
    """Make the synthetic data, train on it by method localrank, publish models/demo from scratch.

    Examples:
      localrank demo
      localrank demo --models-dir /tmp/models
      localrank demo --serve --port 8081
    """
    from localrank.__main__ import main

    if not serve:
        _publish(Path(models_dir))
        typer.echo("serve it: localrank serve")
        return
    source = context.get_parameter_source("models_dir")
    if source is not None and source.name == "COMMANDLINE":
        raise typer.BadParameter(
            "expected one of them, found both: --serve publishes into a temporary folder",
            param_hint="--serve and --models-dir",
        )
    with tempfile.TemporaryDirectory(prefix="localrank-demo-") as folder:
        _publish(Path(folder))
        raise typer.Exit(main(["serve", "--models-dir", folder, "--port", str(port)]))


def _publish(folder: Path) -> None:
    from localrank.registry.versions import Registry
    from localrank_training.data.synthetic import demo_queries
    from localrank_training.parallel.processes import available_cores
    from localrank_training.publishing.publish import publish
    from localrank_training.report.figures import report_of
    from localrank_training.run.train import train
    from localrank_training.settings.config import TrainingConfig

    _check_own(folder / "demo")
    queries, validation, _ = demo_queries()
    config = TrainingConfig.read(method="localrank", overrides=_OPEN)
    with progress() as advance:
        trained = train(queries, config, validation=validation, workers=available_cores(), progress=advance)
    report = report_of(trained)
    folder.mkdir(parents=True, exist_ok=True)
    # Made beside the old one, which is there until the new one is whole.
    with tempfile.TemporaryDirectory(prefix=".demo-", dir=folder) as fresh:
        registry = Registry(Path(fresh))
        reference = publish(
            registry, "demo", trained, queries, validation=validation, report=report, created=_CREATED
        )
        registry.promote("demo", reference.version, since=_CREATED)
        shutil.rmtree(folder / "demo", ignore_errors=True)
        (Path(fresh) / "demo").rename(folder / "demo")
    mine, base = report.local[-1], report.global_[-1]
    typer.echo(f"published demo version {reference.version} in {folder / 'demo'}")
    typer.echo(
        f"{mine.name} on {report.how}: {mine.mean:.4f}, its global model {base.mean:.4f} ({mine.basis})"
    )


def _check_own(model: Path) -> None:
    """Refuse to replace a model that this command did not make.

    Raises:
        PublishFailed: it has other versions, or its version is of another time.
    """
    from localrank.artifact import read_manifest
    from localrank.errors import LocalRankError, PublishFailed

    if not model.exists():
        return
    found = "another file or folder"
    if (model / "aliases.json").is_file():
        versions = sorted(path.name for path in model.iterdir() if path.name.isdecimal())
        found = f"versions {', '.join(versions)}" if len(versions) > 1 else "a version of another origin"
        try:
            if versions == ["1"] and read_manifest(model / "1").created == _CREATED:
                return
        except LocalRankError as error:
            found = str(error)
    raise PublishFailed(
        f"{model}: expected nothing, or the model that 'localrank demo' has made, found {found}; choose another --models-dir"
    )
