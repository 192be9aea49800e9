"""``localrank train``: learn a model from judged queries and publish it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from localrank.commands.output import MANY, print_json, print_notes, print_table
from localrank_training.commands.output import AsJson, ModelsDir, progress, where
from localrank_training.commands.reading import (
    Id,
    Ignore,
    Label,
    Position,
    Qid,
    Sparse,
    Weight,
    columns_of,
    say,
)

__all__ = ["train"]


def train(
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="Judged queries: LETOR text, CSV, Parquet, or a folder of these.", show_default=False
        ),
    ] = None,
    *,
    validation: Annotated[
        list[str] | None,
        typer.Option(
            help="More judged queries, to choose settings on; auto learns from them like the others."
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="A ready configuration: auto, global, localrank, …; a wrong one lists them."),
    ] = None,
    config: Annotated[str | None, typer.Option(help="A TOML file; overrides the method's settings.")] = None,
    learner: Annotated[
        str | None,
        typer.Option(help="Another learner; alone, without --method and --config, one global model."),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Override one setting; may be repeated."),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Processor time that auto may take; it fits less until that is enough."
        ),
    ] = None,
    latency_budget: Annotated[
        int | None,
        typer.Option(
            metavar="MICROSECONDS",
            help="Processor time for 100 documents when auto serves; members are left out until that is enough.",
        ),
    ] = None,
    print_config: Annotated[
        bool,
        typer.Option("--print-config", help="Print the settings with their meanings, and train nothing."),
    ] = False,
    name: Annotated[str, typer.Option(help="The model's name.")] = "model",
    label: Label = "label",
    qid: Qid = "qid",
    id_column: Id = None,
    weight: Weight = None,
    position: Position = None,
    ignore: Ignore = None,
    sparse: Sparse = False,
    models_dir: ModelsDir = "models",
    promote: Annotated[bool, typer.Option("--promote", help="Make the new version champion.")] = False,
    promote_if_better: Annotated[
        bool,
        typer.Option(
            "--promote-if-better",
            help="Make it champion if it is better than the present one on the held-out queries, or if there is none.",
        ),
    ] = False,
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0 is one per core.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Learn a model from judged queries and publish it as the next version.

    Without --method, --config and --learner it is --method auto: a blend of linear models and trees, with local models
    for queries of different kinds if these are better. docs/quality.md explains it, docs/configuration.md lists every
    setting.

    Examples:
      localrank train data/train.txt --name web --promote
      localrank train data/S1.txt data/S2.txt.gz --validation data/S3.txt --method global
      localrank train data/ --learner lambdamart --set learner.num_leaves=[7,15,31]
      localrank train --method localrank --print-config > run.toml
      localrank train data/ --config run.toml
      localrank train data/ --budget 30 --latency-budget 500
      localrank train log.csv --label grade --qid query --ignore url_id
    """
    from localrank.artifact import load
    from localrank.registry import Registry
    from localrank_training.config import TrainingConfig
    from localrank_training.data.reading import read
    from localrank_training.parallel import available_cores
    from localrank_training.promotion import better_than_served
    from localrank_training.publishing import publish
    from localrank_training.reports import report_of
    from localrank_training.toml_text import annotated
    from localrank_training.training import plan_for
    from localrank_training.training import train as train_model

    # Whatever is wrong with what was asked for is said before the work.
    budgets = {"budget": budget, "latency": latency_budget}
    overrides = [*(overrides or ()), *(f"learner.{name}={value}" for name, value in budgets.items() if value)]
    settings = TrainingConfig.read(config, method, learner=learner, overrides=overrides)
    if print_config:
        typer.echo(annotated(settings), nl=False)
        return
    if not data:
        raise typer.BadParameter("expected judged queries, found none", param_hint="DATA")
    columns = columns_of(
        label, qid, id_column, weight=weight, position=position, ignore=ignore, sparse=sparse
    )
    registry = Registry(Path(models_dir))
    registry.check_publishable(name)
    with progress() as advance:
        queries = read(data, progress=advance, columns=columns, say=say)
        held = (
            read(validation, progress=advance, n_features=queries.n_features, columns=columns, say=say)
            if validation
            else None
        )
    plan = plan_for(settings, queries, held)
    if plan is not None and not as_json:
        title, header, rows = plan.table()
        typer.echo(title)
        print_table(header, rows)
    with progress() as advance:
        trained = train_model(
            queries, settings, validation=held, workers=workers or available_cores(), progress=advance
        )
        report = report_of(trained)
        reference = publish(registry, name, trained, queries, validation=held, report=report)
    decision = None
    if promote_if_better and not promote:
        promote, decision = better_than_served(registry, name, trained, report)
    if promote:
        registry.promote(name, reference.version)

    print_notes(report.notes, err=True)
    if as_json:
        print_json(
            {
                "model": name,
                "version": reference.version,
                "promoted": promote,
                "decision": decision,
                **report.to_json(),
            }
        )
        return
    for title, header, rows in report.tables():
        typer.echo(f"\n{title}")
        print_table(header, rows, MANY)
    typer.echo(f"\npublished {name} version {reference.version} in {reference.path}")
    megabytes = sum(path.stat().st_size for path in reference.path.iterdir()) / 1e6
    started = time.perf_counter()
    load(reference.path)
    typer.echo(f"it takes {megabytes:.1f} MB and loads in {time.perf_counter() - started:.2f} s")
    typer.echo(str(report.verdict))
    if decision is not None:
        typer.echo(decision)
    if not promote:
        typer.echo(
            f"make it the one that is served: localrank models promote {name} {reference.version}{where(models_dir)}"
        )
