"""``localrank tune``: choose settings by cross-validation over queries."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localrank.commands.output import print_json
from localrank_training.cli.arguments import Dask, Learner, Overrides, Workers, say, working
from localrank_training.cli.output import AsJson, progress, write_page
from localrank_training.data.tables import Columns

if TYPE_CHECKING:
    from localrank_training.run.tune import Tuned

#: Settings printed; all of them are in the file.
_SHOWN = 12


def tune(
    context: typer.Context,
    data: Annotated[list[str], typer.Argument(help="Training queries. Do not give test queries here.")],
    *,
    config: Annotated[
        str | None, typer.Option(help="A TOML file. Every list of values in it is a choice.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="A ready configuration to start from.")] = None,
    learner: Learner = None,
    overrides: Overrides = None,
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for the trials, the report and best.toml. With the same folder, a stopped run continues."
        ),
    ] = Path("reports/tune"),
    most: Annotated[
        int,
        typer.Option(
            min=1, help="Largest number of combinations to try; if there are more, a random sample is tried."
        ),
    ] = 100,
    agreement: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="How often the hash tables must find the same cluster as the exact scan, from 0 to 1.",
        ),
    ] = 0.95,
    columns: Columns,
    workers: Workers = 0,
    dask: Dask = None,
    as_json: AsJson = False,
) -> None:
    """Choose settings by cross-validation over queries. Every list in the configuration is a choice.

    Without --config, --method, --learner and --set, it chooses the number of components, the number of clusters (or
    none at all) and C of RankSVM. Then it chooses how many hash tables the best settings need to route like the exact
    scan. Every trial is kept in --out, and the best settings are written there for localrank train --config.

    Examples:
      localrank tune data/train.txt
      localrank tune data/train.txt --config space.toml --out reports/web
      localrank train data/train.txt --config reports/tune/best.toml
    """
    from localrank_training.data.reading import read
    from localrank_training.data.writing import check_writable
    from localrank_training.report import png
    from localrank_training.report.pages import effect_plots, page_of_tuning, write_best
    from localrank_training.report.terminal import of_tuning, show
    from localrank_training.run.tune import SPACE, edges_of, tune_routing
    from localrank_training.run.tune import tune as tune_settings
    from localrank_training.settings.config import read_tables

    given = bool(config or method or learner or overrides)
    tables = read_tables(config, method, learner=learner, overrides=overrides or ()) if given else SPACE
    if out.exists():
        check_writable(out / "best.toml")
    with progress() as advance, working(workers, dask) as at_once:
        queries = read(data, progress=advance, columns=columns, say=say)
        tuned = tune_settings(
            queries,
            tables,
            out,
            most=most,
            workers=at_once,
            progress=advance,
            where=config or "configuration",
        )
        best, trials = tune_routing(queries, tuned.best.config, agreement)
    write_best(tuned, out / "best.toml", best)
    if plots := effect_plots(tuned):
        (out / "effects.png").write_bytes(png(*plots, columns=len(plots), width=380.0 * len(plots)))
    write_page(page_of_tuning(tuned, best, context.obj or ""), out / "report.html")
    for note in edges_of(tuned):
        typer.echo(f"note: {note}", err=True)
    if as_json:
        print_json(_as_json(tuned) | {"best": best.to_json(), "tables": [asdict(trial) for trial in trials]})
        return
    show(of_tuning(tuned, trials, agreement))
    typer.echo(
        f"\nwrote {out / 'best.toml'}, {out / 'report.html'}, {out / 'effects.png'}, {out / 'trials.jsonl'}"
    )
    command = shlex.join(["localrank", "train", *data, "--config", str(out / "best.toml")])
    typer.echo(f"train with it: {command}")


def _as_json(tuned: Tuned) -> dict[str, Any]:
    from localrank_training.report.figures import against_best

    return {
        "metric": tuned.metric,
        "folds": tuned.n_folds,
        "settings": [
            {
                "choices": setting.choices,
                "mean": setting.mean,
                "global": float(setting.global_.mean()),
                "less_than_best": compared.to_json(),
            }
            for setting, compared in zip(tuned.settings, against_best(tuned), strict=True)
        ],
        "effects": [
            {"setting": effect.name, "values": effect.values, "means": effect.means, "best": effect.best}
            for effect in tuned.effects()
        ],
    }
