"""``localrank train``: learn a model from judged queries and publish it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localrank.commands.output import ROWS, print_json, print_notes, print_table
from localrank_training.cli.arguments import (
    Baseline,
    Dask,
    Learner,
    Monotone,
    Overrides,
    Promote,
    SkipBadFiles,
    Workers,
    directions,
    read_with,
    typed,
    working,
)
from localrank_training.cli.output import (
    AsJson,
    ModelsDir,
    Report,
    page_path,
    progress,
    where,
    write_page,
)
from localrank_training.data.tables import Columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from localrank.registry.versions import Reference, Registry
    from localrank_training.data.queries import QuerySet
    from localrank_training.evaluation.leaks import Leaks
    from localrank_training.report.background import Background
    from localrank_training.report.figures import TrainingReport
    from localrank_training.run.train import Trained
    from localrank_training.settings.config import TrainingConfig


def train(
    context: typer.Context,
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="Judged queries: LETOR text, CSV, JSON lines, Parquet, Arrow, or a folder of these.",
            show_default=False,
        ),
    ] = None,
    *,
    validation: Annotated[
        list[str] | None,
        typer.Option(help="Judged queries for choosing settings. Method auto also learns from them."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="A ready configuration: auto, global, localrank, … An unknown name lists all."),
    ] = None,
    config: Annotated[
        str | None, typer.Option(help="A TOML file; its settings override those of --method.")
    ] = None,
    learner: Learner = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="A feature of the query that names its kind: each value gets a model of its own.",
            show_default=False,
        ),
    ] = None,
    monotone: Monotone = None,
    overrides: Overrides = None,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Processor time for training with auto; it trains less until the plan fits.",
        ),
    ] = None,
    latency_budget: Annotated[
        int | None,
        typer.Option(
            metavar="MICROSECONDS",
            help="Processor time to score 100 documents with a model of auto; it leaves members out until the "
            "rest fits.",
        ),
    ] = None,
    warm: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Use the settings of this published version, and try no others.",
            show_default=False,
        ),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Train as this published version was trained: its columns, its baseline and the settings that it began with; "
            "without DATA, on its data. Options given here count first: --set changes one setting, --method, --config or "
            "--learner all of them.",
            show_default=False,
        ),
    ] = None,
    print_config: Annotated[
        bool,
        typer.Option("--print-config", help="Only print the settings and what they mean."),
    ] = False,
    name: Annotated[str, typer.Option(help="The model's name.")] = "model",
    baseline: Baseline = None,
    columns: Columns,
    skip_bad_files: SkipBadFiles = False,
    models_dir: ModelsDir = "models",
    promote: Promote = False,
    allow_suspicious: Annotated[
        bool,
        typer.Option(
            "--allow-suspicious",
            help="Promote even if a feature holds the label: equal to it, or a rank correlation above 0.95.",
        ),
    ] = False,
    promote_if_better: Annotated[
        bool,
        typer.Option(
            "--promote-if-better",
            help="Make it the champion if it is better than the current champion on the held-out queries, or "
            "if there is no champion.",
        ),
    ] = False,
    report_file: Report = None,
    curve: Annotated[
        bool,
        typer.Option(
            "--learning-curve",
            help="With --report: also train on growing shares of the queries, to show whether more queries "
            "would help. It takes several times as long.",
        ),
    ] = False,
    workers: Workers = 0,
    dask: Dask = None,
    as_json: AsJson = False,
) -> None:
    """Learn a model from judged queries and publish it as the next version.

    Without --method, --config and --learner, the method is auto: a blend of linear models and trees, with local models
    for different kinds of queries if these are better. docs/understand/quality.md explains it, docs/use/configuration.md lists every
    setting. If a run is stopped, the same command continues it.

    Examples:
      localrank train data/train.txt --name web --promote
      localrank train data/S1.txt data/S2.txt.gz --validation data/S3.txt --method global
      localrank train data/ --learner lambdamart --set learner.num_leaves=[7,15,31]
      localrank train --method localrank --print-config > run.toml
      localrank train data/ --config run.toml
      localrank train data/ --dask tcp://10.0.0.5:8786
      localrank train data/ --budget 30 --latency-budget 500
      localrank train data/ data/october.txt --name web --warm web
      localrank train october.csv --name web --like web@3
      localrank train log.csv --label grade --qid query --ignore url_id
      localrank train log.csv --query-feature hour,device --kind segment
      localrank train log.csv --monotone rating=+1 --monotone price=-1
      localrank train data/train.txt --report report.html --learning-curve
    """
    from localrank.artifact import load
    from localrank.registry.versions import Registry
    from localrank_training.publishing.publish import better_than_served, publish
    from localrank_training.report.figures import report_of
    from localrank_training.report.terminal import of_run, show
    from localrank_training.run.train import journal_in, plan_for
    from localrank_training.run.train import train as train_model
    from localrank_training.settings.config import DATA, TrainingConfig, annotated, read_tables

    # Errors in the options are reported before the work.
    columns = replace(_told(columns, kind), models_dir=models_dir)
    _check_promotion(promote=promote, if_better=promote_if_better)
    registry = Registry(Path(models_dir))
    before = {} if like is None else _asked_of(registry, like)
    overrides = [
        *_remembered(before, kind, monotone, another=bool(learner and not (method or config))),
        *(overrides or ()),
        *_limits(budget, latency_budget),
    ]
    alone = not (config or method or learner or overrides or like)
    settings = (
        TrainingConfig.read(
            config, method, learner=learner, overrides=overrides, base=before.get("configuration")
        )
        if warm is None
        else _settings_of(registry, warm, alone=alone)
    )
    if config is not None:
        columns = columns.over(read_tables(config).get(DATA, {}), f"{config}: [data]")
    columns = columns.over(before.get("columns", {}), f"{like}: columns", typed(context, "columns"))
    baseline = baseline or before.get("baseline")
    if not data:
        data, validation = before.get("data"), validation or before.get("validation")
    if print_config:
        typer.echo(annotated(settings), nl=False)
        return
    if not data:
        raise typer.BadParameter("expected judged queries, found none", param_hint="DATA")
    if curve and report_file is None:
        raise typer.BadParameter(
            "expected --report FILE, which the curve is drawn in", param_hint="--learning-curve"
        )
    page = page_path(report_file)
    registry.check_publishable(name)
    at_once = context.with_resource(working(workers, dask))
    with progress() as advance:
        queries = read_with(baseline, data, columns, progress=advance, skip=skip_bad_files)
        held = (
            read_with(
                baseline,
                validation,
                columns.of(queries.features),
                progress=advance,
                n_features=queries.n_features,
            )
            if validation
            else None
        )
    leaks, refused = _looked_at(queries, baseline, allowed=allow_suspicious, promote=promote)
    plan = plan_for(settings, queries, held)
    if plan is not None and not as_json:
        title, header, rows = plan.table()
        typer.echo(title)
        print_table(header, rows)
    if curve and not as_json:
        _say_curve(settings, queries)
    journal = journal_in(registry.models_dir / name, queries, settings, held)
    if journal.known:
        typer.echo(f"continuing a run that was stopped: {journal.known} of its results are known", err=True)
    with progress() as advance:
        trained = train_model(
            queries, settings, validation=held, journal=journal, workers=at_once, progress=advance
        )
        report = report_of(trained)
        report = replace(report, notes=(*report.notes, *leaks.sentences))
        asked = {
            "data": data,
            "validation": validation,
            "columns": columns.to_json(),
            "baseline": baseline,
            "configuration": settings.to_json(),
        }
        reference = publish(registry, name, trained, queries, validation=held, report=report, asked=asked)
    journal.remove()
    decision = None
    if promote_if_better:
        promote, decision = (
            (False, f"not promoted: {refused}")
            if refused is not None
            else better_than_served(registry, name, trained, report, allow_suspicious=allow_suspicious)
        )
    if promote:
        registry.promote(name, reference.version)

    print_notes(report.notes[: len(report.notes) - len(leaks.sentences)], err=True)
    made = _Made(trained, settings, report, reference, context.obj or "", at_once)
    if as_json:
        background = None if page is None else made.background(curve=curve)
        kept = None if page is None or background is None else made.write(background, registry, page)
        print_json(
            {
                "model": name,
                "version": reference.version,
                "promoted": promote,
                "decision": decision,
                **report.to_json(),
                **({} if background is None else {"report": str(kept), **background.to_json()}),
            }
        )
        return
    show(of_run(report), ROWS)
    typer.echo(f"\npublished {name} version {reference.version} in {reference.path}")
    started = time.perf_counter()
    load(reference.path)
    typer.echo(f"it takes {made.megabytes:.1f} MB and loads in {time.perf_counter() - started:.2f} s")
    typer.echo(str(report.verdict))
    if decision is not None:
        typer.echo(decision)
    typer.echo(_next_step(report, reference, models_dir, promoted=promote))
    if page is not None:
        # The model is published and the user knows; the rest takes time.
        background = made.background(curve=curve)
        for sentence in background.sentences:
            typer.echo(sentence)
        kept = made.write(background, registry, page)
        typer.echo(f"report: {page}; a copy is kept with the version: {kept}")


def _looked_at(
    queries: QuerySet, baseline: str | None, *, allowed: bool, promote: bool
) -> tuple[Leaks, str | None]:
    """Say what looks wrong with the data; return it, and why a model must not be promoted, if it must not.

    Raises:
        InvalidData: it is to be promoted all the same.
    """
    from localrank.errors import InvalidData
    from localrank_training.evaluation.leaks import leaks_of

    leaks = leaks_of(queries, exempt=() if baseline is None else (baseline,))
    print_notes(leaks.sentences, err=True)
    if allowed or not leaks.holding:
        return leaks, None
    refused = (
        f"{leaks.holding[0]}; leave it out if it is not known before a document is judged (of tables: --ignore), or add "
        "--allow-suspicious"
    )
    if promote:
        raise InvalidData(f"--promote: {refused}")
    return leaks, refused


def _next_step(report: TrainingReport, reference: Reference, models_dir: str, *, promoted: bool) -> str:
    if report.verdict.outcome == "suspect":
        return f"look at that before you serve it{'; it is the champion now' if promoted else ''}"
    if promoted:
        return f"it is the champion now; serve it: localrank serve{where(models_dir)}"
    return f"to serve it: localrank models promote {reference.name} {reference.version}{where(models_dir)}"


def _limits(budget: float | None, latency: int | None) -> list[str]:
    """Return the settings that the two budgets stand for."""
    settings = []
    for option, name, value in (
        ("--budget", "learner.budget", budget),
        ("--latency-budget", "learner.latency", latency),
    ):
        if value is None:
            continue
        if not value > 0:
            raise typer.BadParameter(f"expected more than 0, found {value:g}", param_hint=option)
        settings.append(f"{name}={value}")
    return settings


def _told(columns: Columns, kind: str | None) -> Columns:
    """Return the columns with that of the kinds as a feature of the query."""
    told = dict.fromkeys((*columns.query_feature, *([] if kind is None else [kind])))
    return replace(columns, query_feature=tuple(told))


def _remembered(
    before: Mapping[str, Any], kind: str | None, monotone: Sequence[str] | None, *, another: bool
) -> list[str]:
    """Return the settings of kinds and directions: as given here, else as before. They belong to the data, so another
    learner keeps them.
    """
    asked = before.get("configuration", {})
    clustering = asked.get("clustering", {})
    if kind is None and another and clustering.get("method") == "kind":
        kind = clustering.get("column")
    return [*_kinds(kind), *directions(monotone, asked.get("contract", {}).get("monotone"))]


def _kinds(column: str | None) -> list[str]:
    """Return the settings of a model for each value of a column."""
    if column is None:
        return []
    from localrank_training.settings.config import value_text

    return [
        "clustering.method=kind",
        f"clustering.column={value_text(column)}",
        "clustering.shrink=[0.0, 0.1, 0.5, 2.0]",
    ]


def _check_promotion(*, promote: bool, if_better: bool) -> None:
    if promote and if_better:
        raise typer.BadParameter(
            "expected one of them, found both", param_hint="--promote and --promote-if-better"
        )


def _asked_of(registry: Registry, model: str) -> dict[str, Any]:
    """Return how a published version was asked for."""
    from localrank.artifact import read_manifest
    from localrank.errors import InvalidConfiguration

    manifest = read_manifest(registry.resolve(model).path)
    asked = manifest.source.get("asked")
    if not isinstance(asked, dict):
        raise InvalidConfiguration(
            f"{manifest.name}@{manifest.version}: expected a version that 'localrank train' published, found one that does "
            "not say how"
        )
    return asked


def _settings_of(registry: Registry, model: str, *, alone: bool) -> TrainingConfig:
    from localrank.artifact import read_manifest
    from localrank_training.settings.config import TrainingConfig

    if not alone:
        raise typer.BadParameter(
            "expected only the settings of that version, found further options for settings",
            param_hint="--warm",
        )
    return TrainingConfig.of_version(read_manifest(registry.resolve(model).path))


def _say_curve(config: TrainingConfig, queries: QuerySet) -> None:
    """Say beforehand what the learning curve takes, if that is known."""
    from localrank_training.advice.learning_curve import seconds_of_curve

    seconds = seconds_of_curve(config, queries)
    if seconds is not None:
        typer.echo(f"Learning curve: about {seconds:.0f} processor seconds more")


@dataclass(frozen=True, slots=True, eq=False)
class _Made:
    """What the page of a run is about."""

    trained: Trained
    config: TrainingConfig
    report: TrainingReport
    reference: Reference
    command: str
    workers: int

    @property
    def megabytes(self) -> float:
        """Size of the version."""
        return sum(path.stat().st_size for path in self.reference.path.iterdir()) / 1e6

    def background(self, *, curve: bool) -> Background:
        """Find out what the page shows beside the report."""
        from localrank_training.report.background import background_of

        with progress() as advance:
            return background_of(
                self.trained, self.config, curve=curve, workers=self.workers, progress=advance
            )

    def write(self, background: Background, registry: Registry, page: Path) -> Path:
        """Write the page to where it was asked for and beside the version; return the latter."""
        from localrank.artifact import read_manifest
        from localrank_training.report.training_run import VersionOrigin, page_of_run

        kept = registry.report_path(self.reference)
        origin = VersionOrigin(self.command, read_manifest(self.reference.path), self.config, self.megabytes)
        write_page(page_of_run(self.trained, self.report, background, origin), page, kept)
        return kept
