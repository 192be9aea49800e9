"""``localrank evaluate``: figures of one or two models on judged queries, with what they can and cannot show."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from localrank.commands.output import print_json
from localrank_training.cli.arguments import Baseline, Model, read_with, say
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
from localrank_training.data.writing import whole_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from localrank.arrays import Vector
    from localrank.artifact import Artifact
    from localrank.metrics import Convention, Measured, Metric
    from localrank.ranker import Ranker
    from localrank_training.data.queries import QuerySet
    from localrank_training.evaluation.evaluating import Evaluation, Versus

#: Names with these endings are files, so that a missing file is not taken for a model.
_DATA_SUFFIXES = frozenset({".txt", ".gz", ".zst", ".parquet", ".svm", ".dat", ".letor", ".tsv", ".csv"})


def evaluate(
    context: typer.Context,
    model: Model,
    data: Annotated[
        list[str],
        typer.Argument(
            help="Judged queries: LETOR text, CSV, JSON lines, Parquet, Arrow, or a folder of these. A second model to compare "
            "may stand before them."
        ),
    ],
    *,
    metrics: Annotated[
        str, typer.Option(help="Separated by commas: map, map@K, mean_ndcg, ndcg@K, p@K, mrr, err@K.")
    ] = "map,ndcg@1,ndcg@5,ndcg@10,mrr",
    convention: Annotated[
        str,
        typer.Option(
            help="One or more, separated by commas: letor3, letor4, mslr, standard, standard-one, standard-skip."
        ),
    ] = "standard",
    top_grade: Annotated[
        int | None, typer.Option(help="The largest label; ERR in the standard conventions needs it.")
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="Also test whether the candidate is at most this much worse.")
    ] = None,
    per_query: Annotated[
        Path | None,
        typer.Option(
            help="Write the figures and the route of each query to this file, with commas if its name ends in "
            ".csv, else with tabs.",
            show_default=False,
        ),
    ] = None,
    oracle: Annotated[
        bool,
        typer.Option(
            "--oracle",
            help="Also measure the best cluster of each query. It is chosen by the labels, so no real router "
            "can be better.",
        ),
    ] = False,
    qrels: Annotated[
        Path | None,
        typer.Option(help="TREC qrels; their labels replace those in the data.", show_default=False),
    ] = None,
    baseline: Baseline = None,
    run: Annotated[
        Path | None,
        typer.Option(
            help="A TREC run to compare one model with: the same as --baseline.", show_default=False
        ),
    ] = None,
    write_run: Annotated[
        Path | None,
        typer.Option(
            help="Write the ranking of the last model to this file, as a TREC run.", show_default=False
        ),
    ] = None,
    write_qrels: Annotated[
        Path | None, typer.Option(help="Write the labels to this file, as TREC qrels.", show_default=False)
    ] = None,
    report: Report = None,
    columns: Columns,
    models_dir: ModelsDir = "models",
    as_json: AsJson = False,
) -> None:
    """Measure one model or two on judged queries: localrank evaluate MODEL [MODEL] DATA...

    One model is compared with its own global scorer. Two models are compared with each other; a difference is the
    second minus the first. With --run, one model is compared with a ranking in the format of TREC. Every figure comes
    with its convention and the number of empty queries. Every difference comes with a 95 % interval over queries
    and the p value of a sign-flip test, adjusted for the number of metrics.

    A word that is an existing file or folder is data, unless the folder is a published model. Any other word is a
    model. If a model has the name of a file or folder, add its alias or version: web@champion.

    Examples:
      localrank evaluate demo data/test.txt
      localrank evaluate web@champion web@challenger data/S5.txt.gz --metrics map,ndcg@10 --margin 0.002
      localrank evaluate web data/test.txt --qrels qrels.txt --run bm25.run --write-run web.run
      localrank evaluate web@3 data/test/ --convention letor4,standard-skip --per-query figures.csv --json
    """
    from localrank_training.data.queries import Present
    from localrank_training.evaluation.baselines import against_baseline
    from localrank_training.evaluation.evaluating import evaluate as evaluate_model
    from localrank_training.evaluation.evaluating import per_query_table, versus, versus_run
    from localrank_training.report.figures import sides_of
    from localrank_training.report.terminal import of_evaluation, show

    page = page_path(report)
    asked = _asked(metrics, convention, top_grade, margin, per_query)
    models, paths = _sorted_out([model, *data], Path(models_dir))
    if run is not None and len(models) > 1:
        raise typer.BadParameter("--run: expected one model to compare the run with, found two")
    if baseline is not None and (run is not None or len(models) > 1):
        found = "--run too" if run is not None else "two models"
        raise typer.BadParameter(
            f"expected one model to compare with it, found {found}", param_hint="--baseline"
        )
    # Labels come from elsewhere.
    columns = replace(columns, judged=qrels is None, models_dir=models_dir).of(
        [feature for one in models for feature in one.ranker.contract.features]
    )
    with progress() as advance:
        queries = read_with(
            baseline,
            paths,
            columns,
            progress=advance,
            n_features=max(one.ranker.contract.n_features for one in models),
        )
        _say_if_known(models, queries, models_dir)
        _say_unseen(models, queries)
        if qrels is not None:
            queries = _judged(queries, qrels)
        if run is not None:
            queries = replace(queries, present=Present(run.name, _run_scores(queries, run)))
        evaluations = [
            evaluate_model(
                one.ranker,
                queries,
                asked.metrics,
                asked.conventions,
                name=one.name,
                margin=margin,
                oracle=oracle,
                progress=advance,
            )
            for one in models
        ]
    ran: tuple[Measured, ...] | None = None
    compared: Versus | None
    if queries.present is not None:
        order, scores = queries.present
        compared, ran = versus_run(evaluations[0], queries, scores, order, margin=margin)
    else:
        compared = versus(evaluations[1], evaluations[0], margin=margin) if len(evaluations) == 2 else None
    if write_run is not None:
        _write_run(write_run, queries, evaluations[-1])
    if write_qrels is not None:
        _write_qrels(write_qrels, queries)
    if per_query is not None:
        _write(per_query, *per_query_table(queries, evaluations))
    sides = sides_of(evaluations, compared, ran)
    first = evaluations[-1].local
    feature = (
        against_baseline([one for one in first if one.convention == first[0].convention], queries)
        if queries.present is None
        else None
    )
    if page is not None:
        from localrank_training.report.pages import page_of_evaluation

        write_page(page_of_evaluation(evaluations, sides, context.obj or ""), page)
    if as_json:
        print_json(
            {
                "data": {"paths": paths, "queries": len(queries), "documents": queries.n_docs},
                "models": [evaluation.to_json() for evaluation in evaluations],
                "run": None if ran is None else [measured.to_json() for measured in ran],
                "best_feature": None if feature is None else feature.to_json(),
                "comparison": None if compared is None else compared.to_json(),
            }
        )
        return
    typer.echo(f"{len(queries)} queries, {queries.n_docs} documents")
    show(of_evaluation(evaluations, sides))
    if feature is not None:
        typer.echo(f"\n{feature.sentence}")
    if page is not None:
        typer.echo(f"\nreport: {page}")


def _say_if_known(models: Sequence[_Model], queries: QuerySet, models_dir: str) -> None:
    """Warn that a version is evaluated on data that it was trained on."""
    from localrank_training.journal import fingerprint
    from localrank_training.publishing.publish import known_as

    digest = fingerprint(queries)
    for model in models:
        manifest = model.artifact.manifest
        if (known := known_as(manifest.source, digest)) is not None:
            say(
                f"these are the queries that {model.name} {known}; for figures of held-out queries see: "
                f"localrank models show {manifest.name}{where(models_dir)}"
            )


def _say_unseen(models: Sequence[_Model], queries: QuerySet) -> None:
    from localrank_training.data.preparing import aligned, say_unseen

    for model in models:

        def named(text: str, name: str = model.name) -> None:
            say(f"{name}: {text}")

        contract = model.ranker.contract
        if contract.categories:
            say_unseen(aligned(queries, contract), contract, named)


def _judged(queries: QuerySet, qrels: Path) -> QuerySet:
    from localrank_training.data.trec import judged_by, read_qrels

    judged, absent = judged_by(queries, read_qrels(qrels))
    if absent:
        say(
            f"{qrels}: {absent} relevant documents are not in the data; the figures leave them out, but "
            "trec_eval counts them as missed"
        )
    return judged


def _run_scores(queries: QuerySet, run: Path) -> Vector:
    from localrank_training.data.trec import read_run, scores_of

    return scores_of(queries, read_run(run))


def _write_run(path: Path, queries: QuerySet, evaluation: Evaluation) -> None:
    from localrank_training.data.trec import run_lines

    with whole_file(path) as file:
        file.writelines(run_lines(queries, evaluation.ranked.scores, evaluation.name))


def _write_qrels(path: Path, queries: QuerySet) -> None:
    from localrank_training.data.trec import qrels_lines

    with whole_file(path) as file:
        file.writelines(qrels_lines(queries))


@dataclass(frozen=True, slots=True)
class _Asked:
    metrics: tuple[Metric, ...]
    conventions: tuple[Convention, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    name: str
    artifact: Artifact

    @property
    def ranker(self) -> Ranker:
        return self.artifact.ranker


def _asked(
    metrics: str, conventions: str, top_grade: int | None, margin: float | None, per_query: Path | None
) -> _Asked:
    """Read the options before anything that takes long."""
    from localrank.errors import InvalidConfiguration
    from localrank.metrics import Convention, Metric

    try:
        wanted = tuple(dict.fromkeys(Metric.parse(text) for text in _listed(metrics, "--metrics")))
        ways = [Convention.named(text) for text in dict.fromkeys(_listed(conventions, "--convention"))]
        if top_grade is not None:
            ways = [way if way.official else way.with_top_grade(top_grade) for way in ways]
    except InvalidConfiguration as error:
        raise typer.BadParameter(str(error)) from None
    if margin is not None and not 0 < margin < 1:
        raise typer.BadParameter(f"--margin: expected a number between 0 and 1, found {margin:g}")
    if per_query is not None and not per_query.absolute().parent.is_dir():
        raise typer.BadParameter(f"--per-query {per_query}: no such folder: {per_query.absolute().parent}")
    return _Asked(wanted, tuple(ways))


def _listed(text: str, option: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise typer.BadParameter(f"{option}: expected at least one, found {text!r}")
    return parts


def _sorted_out(arguments: Sequence[str], models_dir: Path) -> tuple[list[_Model], list[str]]:
    """Tell models from data, and load the models."""
    from localrank import artifact
    from localrank.errors import ArtifactNotFound, InvalidData
    from localrank.registry.versions import Registry

    registry = Registry(models_dir)
    folders: list[tuple[str, Path]] = []
    data: list[str] = []
    for argument in arguments:
        path = Path(argument)
        if not path.exists():
            try:
                folders.append((argument, registry.resolve(argument).path))
            except ArtifactNotFound:
                if "/" in argument or path.suffix in _DATA_SUFFIXES:
                    raise InvalidData(
                        f"{argument}: no such file or folder, and no model of that name"
                    ) from None
                raise
        elif (version := _published(path)) is not None:
            folders.append((argument, version))
        else:
            data.append(argument)
    if not folders:
        raise typer.BadParameter(
            f"expected a model, found only files and folders: {', '.join(data)} (if a model has the name of a "
            "file or folder, add its alias or version: web@champion)"
        )
    if not data:
        raise typer.BadParameter("expected judged queries after the model, found none")
    if len(folders) > 2:
        raise typer.BadParameter(
            f"expected one or two models, found {', '.join(argument for argument, _ in folders)}"
        )
    if len({folder.resolve() for _, folder in folders}) < len(folders):
        raise typer.BadParameter(f"expected two different models, found {folders[0][1]} twice")
    loaded = [artifact.load(folder) for _, folder in folders]
    names = [f"{one.manifest.name}@{one.manifest.version}" for one in loaded]
    if len(set(names)) < len(names):
        names = [argument for argument, _ in folders]
    return [_Model(name, one) for name, one in zip(names, loaded, strict=True)], data


def _published(path: Path) -> Path | None:
    """Return the version in a folder, or the champion if the folder is a model; None if it is neither."""
    from localrank.registry.versions import Registry

    if (path / "manifest.json").is_file():
        return path
    resolved = path.resolve()
    registry = Registry(resolved.parent)
    if path.is_dir() and resolved.name in registry.models():
        latest = resolved / str(registry.versions(resolved.name)[-1])
        if (latest / "manifest.json").is_file():
            return registry.resolve(resolved.name).path
    return None


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with whole_file(path) as file:
        writer = csv.writer(file, delimiter="," if path.suffix == ".csv" else "\t", lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
