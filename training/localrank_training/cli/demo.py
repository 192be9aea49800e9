"""``localrank demo``: the demo model, from its synthetic data to a published version."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import typer

from localrank_training.cli.output import ModelsDir, progress

#: Fixed, so that the demo model is always the same.
_CREATED = "2026-01-01T00:00:00Z"
#: What the method chooses from. Four kinds of queries want four clusters; the method's own candidates leave four out.
_OPEN = ("clustering.candidates=[1, 2, 3, 4, 5]", "learner.C=[10, 100, 1000, 10000]")


def demo(models_dir: ModelsDir = "models") -> None:
    """Make the synthetic data, train on it by method localrank, publish models/demo from scratch.

    Examples:
      localrank demo
      localrank demo --models-dir /tmp/models
    """
    from localrank.registry.versions import Registry
    from localrank_training.data.synthetic import demo_queries
    from localrank_training.parallel.processes import available_cores
    from localrank_training.publishing.publish import publish
    from localrank_training.report.figures import report_of
    from localrank_training.run.train import train
    from localrank_training.settings.config import TrainingConfig

    queries, validation, _ = demo_queries()
    config = TrainingConfig.read(method="localrank", overrides=_OPEN)
    with progress() as advance:
        trained = train(queries, config, validation=validation, workers=available_cores(), progress=advance)
    report = report_of(trained)
    folder = Path(models_dir)
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
    typer.echo("serve it: localrank serve")
