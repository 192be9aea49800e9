r"""Best-feature calibration: how rankings do on queries on which the baseline fails [kuzi2019; cremers2020].

With :math:`m(q)` the metric of the baseline and :math:`b(q)` the metric of the best single feature, the failure level
of a query is :math:`m(q) - b(q)`, rounded to a tenth; below zero the feature is better. Every ranking's mean is taken
level by level.

**This flatters every other ranking at low levels.** A query gets a low level partly because the baseline had bad luck
with it. Another ranking does not share this bad luck: regression to the mean. There are two remedies. `levels` come
from another run of the baseline than the plotted one. `predicted_levels` use only what is known about a query without
its labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from localrank.metrics import Judgements
from localrank_papers.figures.adaptive_clusters import (
    PUBLISHED,
    REPAIRED,
    Adapted,
    Answers,
    Clusters,
    as_published,
    dealt_at_random,
    flips,
    global_model,
    published_reciprocal_rank,
    repaired,
    scored_by,
    top_documents,
)
from localrank_papers.figures.fits import Fit
from localrank_papers.figures.paired import Pair, paired_table, verdict_of
from localrank_papers.figures.study import Experiment, Findings, Kind, Protocol, side_by_side, spread_of
from localrank_training.evaluation.comparisons import interval_of
from localrank_training.grouping.representations import PROFILE
from localrank_training.learners.best_feature import best_feature
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.ranksvm import RankSvm
from localrank_training.report import Axis, Line, Plot, Table
from localrank_training.run.choosing import folds_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from localrank.arrays import Bits, Indices, Vector
    from localrank_papers.figures.fits import Arrays
    from localrank_papers.figures.folds import Fold
    from localrank_papers.figures.study import Study
    from localrank_training.data.queries import QuerySet
    from localrank_training.learners.boosting import LambdaMart

#: Levels of a metric from 0 to 1, in tenths.
_TENTHS = 10
#: Of the regression that predicts failure, in units of the mean variance of a column.
_RIDGE = 1.0


@dataclass(frozen=True, slots=True)
class AtLevel:
    """One ranking at one failure level.

    Attributes:
        level: which one.
        queries: how many are there.
        mean: of the metric.
        low, high: of its interval; both the mean if there are too few queries for one.
    """

    level: float
    queries: int
    mean: float
    low: float
    high: float


def levels(baseline: Vector, feature: Vector) -> Vector:
    """Return ``[n_queries]`` failure levels, in steps of a tenth."""
    # Rounded first: 0.15 as a difference of two figures may be a little less.
    tenths = np.round(np.round((baseline - feature) * _TENTHS, 9))
    return np.asarray(tenths / _TENTHS + 0.0, np.float64)


def means_at(places: Vector, figures: Vector) -> list[AtLevel]:
    """Return the mean of ``figures [n_queries]`` at each level of ``places [n_queries]``, the lowest first."""
    found = []
    for level in np.unique(places):
        here = figures[places == level]
        mean = float(here.mean())
        interval = interval_of(here)
        low, high = (mean, mean) if interval is None else (interval.low, interval.high)
        found.append(AtLevel(float(level), len(here), mean, low, high))
    return found


def predicted_levels(points: Vector, failure: Vector, asked: Vector, bins: int = 5) -> tuple[Indices, Vector]:
    """Return the bin ``[n_asked]`` of each query by its predicted failure, 0 the worst, and the prediction itself.

    Ridge regression predicts the lead of the baseline over the feature; it learns from the training queries. The bins
    hold as many queries each.

    Args:
        points: ``[n_queries, width]`` what is known of the training queries without labels.
        failure: ``[n_queries]`` baseline minus feature, of a baseline that has not seen the query.
        asked: ``[n_asked, width]`` the queries to predict for.
        bins: how many.
    """
    centre, scale = points.mean(axis=0), points.std(axis=0)
    scale = np.where(scale > 1e-12, scale, np.inf)
    known, new = (points - centre) / scale, (asked - centre) / scale
    gram = known.T @ known / len(known) + _RIDGE * np.eye(known.shape[1])
    weights = np.linalg.solve(gram, known.T @ (failure - failure.mean()) / len(known))
    predicted = failure.mean() + new @ weights
    order = np.argsort(np.argsort(predicted, kind="stable"), kind="stable")
    return order * bins // max(len(order), 1), predicted


# ------------------------------------------------------------------------------------------------
# The experiments of adaptive training [cremers2020]: clusters of queries by relevant documents, refined by how models rank them.

PAPER = "Cremers, Kaur, Koesomo: Adaptive Training With K-Means and Hierarchical Clustering (2020)"
#: MQ2007, the paper's data, is not available here; MQ2008 is its sister of the same collection and features.
PAPER_DATA = ("MQ2007",)

How: TypeAlias = Literal["published", "repaired"]
_CLUSTERS: tuple[Clusters, ...] = get_args(Clusters)
Answer: TypeAlias = Literal["selective", "fusion"]
_ANSWERS: tuple[Answer, ...] = get_args(Answer)
_CALLED: dict[Clusters, str] = {"kmeans": "k-means", "ward": "Ward"}
#: The eight metrics of a profile, and the reciprocal rank as the notebooks compute it.
METRICS = (*PROFILE, "mrr@100 of the notebooks")
_BY = METRICS.index("ndcg@5")
#: Clusters, as in the paper; and what the repaired method chooses from on validation queries.
COUNT, CANDIDATES = 5, (1, 2, 3, 5)
#: What is measured of random clusters.
_DRAWN = ("selective", "fusion", "oracle")
#: Number of parts of the training queries; the global model of the other parts ranks each part.
_PARTS = 5

# ------------------------------------------------------------------------------------------------ fits


def single(fold: Fold) -> Arrays:
    """Measure what needs no clusters, ``[9, n_queries]`` each: the best feature, global models, another ranker.

    Also the failure of the published baseline as it can be predicted without labels (`bins`).
    """
    feature, _, _ = best_feature(fold.train, "ndcg@5", signs=(1.0,))
    by_feature = fold.test.documents[:, feature].astype(np.float64)
    # As PUBLISHED, except for the settings that make runs differ.
    again = replace(PUBLISHED, bagging_fraction=0.8, seed=1)
    other = RankSvm(C=10.0, blocks="raw").fit(Lesson(fold.train, blocks="raw"))
    stopped = global_model(fold, REPAIRED)
    failure = np.empty(len(fold.train))
    for part in folds_of(len(fold.train), _PARTS, 0):
        rest = np.setdiff1d(np.arange(len(fold.train)), part)
        model = PUBLISHED.fit(Lesson(fold.train.select(rest)))
        left_out = fold.train.select(part)
        by_model = _measured(left_out, scored_by(model, left_out))[_BY]
        failure[part] = by_model - _measured(left_out, left_out.documents[:, feature].astype(np.float64))[_BY]
    bins, _ = predicted_levels(
        top_documents(fold.train, feature).values.astype(np.float64),
        failure,
        top_documents(fold.test, feature).values.astype(np.float64),
    )
    return {
        "feature": _measured(fold.test, by_feature),
        "chosen feature": np.array([feature]),
        "published": _measured(fold.test, scored_by(global_model(fold, PUBLISHED), fold.test)),
        "published again": _measured(fold.test, scored_by(global_model(fold, again), fold.test)),
        "ranksvm": _measured(fold.test, scored_by(other, fold.test)),
        "repaired": _measured(fold.test, scored_by(stopped, fold.test)),
        "repaired, validation": _measured(fold.validation, scored_by(stopped, fold.validation)),
        "bins": bins,
    }


def clustered(fold: Fold, how: How, clusters: Clusters, count: int) -> Arrays:
    """Measure what clusters answer: selective and fused, and every model by itself ``[n_models, 9, n_queries]``."""
    adapted = _learned(fold, how, clusters, count)
    answers, held = adapted.ask(fold.test), adapted.ask(fold.validation)
    return {
        "selective": _measured(fold.test, answers.selective()),
        "fusion": _measured(fold.test, answers.fusion()),
        "models": np.stack([_measured(fold.test, one) for one in answers.scores]),
        "selective, validation": _measured(fold.validation, held.selective()),
        "fusion, validation": _measured(fold.validation, held.fusion()),
        "labels": adapted.labels,
        "flips": np.array([flips(adapted, fold.test, 0)]),
    }


def random_clusters(fold: Fold, how: How, clusters: Clusters, count: int, *, draws: int, seed: int) -> Arrays:
    """Measure random clusters of the same sizes, ``[draws, 9, n_queries]``: selective, fused and the best model."""
    like = _learned(fold, how, clusters, count)
    learner = _learner(how)
    found: dict[str, list[Vector]] = {"selective": [], "fusion": [], "oracle": []}
    for draw in range(draws):
        answers = dealt_at_random(fold, like, learner, seed + draw).ask(fold.test)
        for name, figures in _answered(answers).items():
            found[name].append(figures)
    return {name: np.stack(figures) for name, figures in found.items()}


def _answered(answers: Answers) -> dict[str, Vector]:
    models = np.stack([_measured(answers.queries, one) for one in answers.scores])
    return {
        "selective": _measured(answers.queries, answers.selective()),
        "fusion": _measured(answers.queries, answers.fusion()),
        "oracle": models.max(axis=0),
    }


def _learner(how: How) -> LambdaMart:
    return PUBLISHED if how == "published" else REPAIRED


def _learned(fold: Fold, how: How, clusters: Clusters, count: int) -> Adapted:
    return as_published(fold, clusters, count) if how == "published" else repaired(fold, clusters, count)


def _measured(queries: QuerySet, scores: Vector) -> Vector:
    """Return ``[9, n_queries]``; documents of equal scores are ranked worst first, except for the last metric."""
    judged = Judgements(queries.labels, queries.offsets).measure(scores, PROFILE, ties="pessimistic")
    return np.stack([*(one.per_query for one in judged), published_reciprocal_rank(queries, scores)])


def _single(fold: Fold) -> Fit:
    return Fit(single, fold)


def _clustered(fold: Fold, how: How, clusters: Clusters, count: int = COUNT) -> Fit:
    return Fit.of(clustered, fold, how=how, clusters=clusters, count=count)


def _random(study: Study, fold: Fold, how: How, clusters: Clusters) -> Fit:
    return Fit.of(
        random_clusters, fold, how=how, clusters=clusters, count=COUNT, draws=study.draws, seed=study.seed
    )


def _plan(study: Study) -> Iterator[Fit]:
    for fold in study.data.folds:
        yield _single(fold)
        for clusters in _CLUSTERS:
            yield _clustered(fold, "published", clusters)


def _plan_table(study: Study) -> Iterator[Fit]:
    yield from _plan(study)
    for fold in study.data.folds:
        for clusters in _CLUSTERS:
            for count in CANDIDATES[1:]:
                yield _clustered(fold, "repaired", clusters, count)
            if study.draws:
                yield _random(study, fold, "published", clusters)
                yield _random(study, fold, "repaired", clusters)


# ------------------------------------------------------------------------------------------------ Table 2


def _pooled(study: Study, fits: Sequence[Fit], name: str) -> Vector:
    """Return an array of all folds, its last axis being the queries."""
    return np.concatenate([study.of(fit)[name] for fit in fits], axis=-1)


def _of_clusters(study: Study, how: How, clusters: Clusters, count: int = COUNT) -> dict[str, Vector]:
    """Return ``[9, n_queries]`` of every way to answer."""
    fits = [_clustered(fold, how, clusters, count) for fold in study.data.folds]
    models = _pooled(study, fits, "models")
    return {
        "selective": _pooled(study, fits, "selective"),
        "fusion": _pooled(study, fits, "fusion"),
        "oracle": models.max(axis=0),
        "random routing": models.mean(axis=0),
    }


def chosen_counts(study: Study, clusters: Clusters, answer: Answer) -> list[int]:
    """Return the number of clusters that each fold's validation queries choose; the smallest if several are equally
    good.
    """
    chosen = []
    for fold in study.data.folds:
        worth = [float(study.of(_single(fold))["repaired, validation"][_BY].mean())]
        worth += [
            float(
                study.of(_clustered(fold, "repaired", clusters, count))[f"{answer}, validation"][_BY].mean()
            )
            for count in CANDIDATES[1:]
        ]
        chosen.append(CANDIDATES[int(np.argmax(worth))])
    return chosen


def _with_chosen(study: Study, clusters: Clusters, answer: Answer) -> Vector:
    """Return ``[9, n_queries]`` with the number of clusters chosen fold by fold; one cluster is the global model."""
    parts = []
    for fold, count in zip(study.data.folds, chosen_counts(study, clusters, answer), strict=True):
        parts.append(
            study.of(_single(fold))["repaired"]
            if count == 1
            else study.of(_clustered(fold, "repaired", clusters, count))[answer]
        )
    return np.concatenate(parts, axis=-1)


def table_2(study: Study) -> Findings:
    """Compare all ways to answer with the global model, and with random clusters."""
    folds = study.data.folds
    singles = [_single(fold) for fold in folds]
    feature = _pooled(study, singles, "feature")
    rows: list[tuple[object, ...]] = []
    tests: list[Table] = []
    verdicts: list[str] = []
    for how in get_args(How):
        base = _pooled(study, singles, how)
        ways: dict[str, Vector] = {"best feature": feature, "one global model": base}
        pairs = [Pair(f"best feature, {how}", feature[_BY], base[_BY])]
        for clusters in _CLUSTERS:
            found = _of_clusters(study, how, clusters)
            ways |= {f"{_CALLED[clusters]}, {answer}": figures for answer, figures in found.items()}
            pairs += [
                Pair(f"{_CALLED[clusters]}, {answer}, {how}", found[answer][_BY], base[_BY])
                for answer in (*_ANSWERS, "random routing")
            ]
            if how == "repaired":
                for answer in _ANSWERS:
                    chosen = _with_chosen(study, clusters, answer)
                    ways[f"{_CALLED[clusters]}, {answer}, clusters chosen"] = chosen
                    name = f"{_CALLED[clusters]}, {answer}, clusters chosen, {how}"
                    pairs.append(Pair(name, chosen[_BY], base[_BY]))
        for name, figures in ways.items():
            rows.append((how, name, *_means(figures)))
        tests.append(
            paired_table(
                f"NDCG@5 beside one global model, {how}",
                pairs,
                f"{len(pairs)} comparisons adjusted together (Holm).",
                seed=study.seed,
            )
        )
        verdicts += [verdict_of(pair) for pair in pairs if "fusion" in pair.name or "selective" in pair.name]
    tables = [
        Table(
            "Table 2: means and deviations over test queries",
            ("protocol", "ranking", *(f"{metric}{what}" for metric in METRICS for what in ("", " sd"))),
            tuple(rows),
            "Documents of equal scores are ranked worst first, queries with nothing relevant count 0.",
        ),
        *tests,
        _oracles(study),
        _choices(study),
    ]
    sentences = [
        "Beside one global model: " + "; ".join(verdicts) + ".",
        _oracle_sentence(study),
    ]
    if study.draws:
        control, sentence = _controls(study)
        tables.insert(1, control)
        sentences.append(sentence)
    return Findings(tuple(tables), (_ways(study),), tuple(sentences))


def _ways(study: Study) -> Plot:
    """Draw NDCG@5 of every way to answer, with random clusters beside the real ones."""
    singles = [_single(fold) for fold in study.data.folds]
    categories = ["best feature", "global model", *_DRAWN, "random routing"]
    kinds = []
    for how in get_args(How):
        alone = {
            "best feature": float(_pooled(study, singles, "feature")[_BY].mean()),
            "global model": float(_pooled(study, singles, how)[_BY].mean()),
        }
        for clusters in _CLUSTERS:
            found = _of_clusters(study, how, clusters)
            worth = alone | {name: float(figures[_BY].mean()) for name, figures in found.items()}
            kinds.append(Kind(f"{_CALLED[clusters]}, {how}", list(worth), list(worth.values())))
            if study.draws:
                fits = [_random(study, fold, how, clusters) for fold in study.data.folds]
                draws = [_pooled(study, fits, one)[:, _BY].mean(axis=1) for one in _DRAWN]
                low, high = zip(*(spread_of(one.tolist()) for one in draws), strict=True)
                name = f"random clusters for {_CALLED[clusters]}, {how}"
                kinds.append(Kind(name, _DRAWN, [float(one.mean()) for one in draws], low, high))
    return Plot(
        "NDCG@5 of every way to answer",
        "The oracle takes the best of five models on every query, with the labels: it is no ranking that could be served.",
        x=Axis("way to answer", categories=categories),
        y=Axis("NDCG@5, mean over test queries"),
        marks=side_by_side(categories, kinds),
        intervals="nine of ten draws of random clusters" if study.draws else "",
        sideways=True,
    )


def _means(figures: Vector) -> tuple[float, ...]:
    """Return mean and deviation of each of ``[9, n_queries]``."""
    return tuple(
        float(value) for row in figures for value in (row.mean(), row.std(ddof=1) if len(row) > 1 else 0.0)
    )


def _oracle_pairs(study: Study) -> list[Pair]:
    """Return the test of the two oracles (section 5), for the two metrics that the paper tests."""
    return [
        Pair(
            f"oracle of k-means beside oracle of Ward, {METRICS[metric]}, {how}",
            _of_clusters(study, how, "kmeans")["oracle"][metric],
            _of_clusters(study, how, "ward")["oracle"][metric],
        )
        for how in get_args(How)
        for metric in (_BY, METRICS.index("mrr@100"))
    ]


def _oracles(study: Study) -> Table:
    return paired_table("The test of the two oracles", _oracle_pairs(study), seed=study.seed)


def _oracle_sentence(study: Study) -> str:
    return "The two oracles: " + "; ".join(map(verdict_of, _oracle_pairs(study))) + "."


def _choices(study: Study) -> Table:
    rows: list[tuple[object, ...]] = []
    for clusters in _CLUSTERS:
        for answer in _ANSWERS:
            counts = chosen_counts(study, clusters, answer)
            flipped = np.mean(
                [study.of(_clustered(fold, "repaired", clusters))["flips"][0] for fold in study.data.folds]
            )
            rows.append(
                (_CALLED[clusters], answer, ", ".join(map(str, counts)), counts.count(1), float(flipped))
            )
    return Table(
        f"Clusters that validation queries choose from {', '.join(map(str, CANDIDATES))}; 1 is the global model",
        (
            "clustering",
            "answer",
            "chosen, fold by fold",
            "folds that choose 1",
            "flip rate of the route, 5 clusters",
        ),
        tuple(rows),
        "The flip rate is how often another cluster is predicted if a tenth of a query's documents is missing.",
    )


def _controls(study: Study) -> tuple[Table, str]:
    """Put random clusters of the same sizes beside the real ones."""
    rows: list[tuple[object, ...]] = []
    inside = dict.fromkeys(_DRAWN, 0)
    for how in get_args(How):
        for clusters in _CLUSTERS:
            real = _of_clusters(study, how, clusters)
            fits = [_random(study, fold, how, clusters) for fold in study.data.folds]
            for answer in inside:
                draws = _pooled(study, fits, answer)[:, _BY].mean(axis=1)
                low, high = spread_of(draws.tolist())
                figure = float(real[answer][_BY].mean())
                inside[answer] += low <= figure <= high
                above = int(np.count_nonzero(draws < figure))
                rows.append((how, _CALLED[clusters], answer, figure, float(draws.mean()), low, high, above))
    table = Table(
        f"NDCG@5 of random clusters of the same sizes, {study.draws} draws",
        (
            "protocol",
            "clustering",
            "answer",
            "real clusters",
            "random, mean",
            "random, 5 %",
            "random, 95 %",
            "draws below the real",
        ),
        tuple(rows),
        "The training queries are dealt to clusters at random; everything else is done in the same way.",
    )
    of = 2 * len(_CLUSTERS)
    sentence = "Real clusters lie within nine tenths of the random ones in " + ", ".join(
        f"{count} of {of} cases ({answer})" for answer, count in inside.items()
    )
    return table, f"{sentence}."


# ------------------------------------------------------------------------------------------------ Figures 4, 5


def _failure(metric: str) -> int:
    return METRICS.index(metric)


def figure(study: Study, metric: str) -> Findings:
    """Plot every ranking against the failure level of the baseline, as published and in two fair ways."""
    number = _failure(metric)
    singles = [_single(fold) for fold in study.data.folds]
    base, again, feature = (
        _pooled(study, singles, name)[number] for name in ("published", "published again", "feature")
    )
    rankings: dict[str, Vector] = {
        "baseline": base,
        "best feature": feature,
        "baseline, another run": again,
        "RankSVM": _pooled(study, singles, "ranksvm")[number],
    }
    for clusters in _CLUSTERS:
        found = _of_clusters(study, "published", clusters)
        rankings |= {
            f"{_CALLED[clusters]}, {answer}": found[answer][number]
            for answer in ("selective", "fusion", "oracle")
        }
    bins = np.concatenate([study.of(fit)["bins"] for fit in singles])
    places = {
        "as published": levels(base, feature),
        "level by another run of the baseline": levels(again, feature),
        "predicted from the query's documents (0 worst, 4 best)": bins.astype(np.float64),
    }
    rows: list[tuple[object, ...]] = []
    plots = []
    for how, where in places.items():
        marks = []
        for name, figures in rankings.items():
            found_at = means_at(where, figures)
            rows += [(how, name, at.level, at.queries, at.mean, at.low, at.high) for at in found_at]
            levels_, means = [at.level for at in found_at], [at.mean for at in found_at]
            if name == "baseline":
                low, high = [at.low for at in found_at], [at.high for at in found_at]
                marks.append(Line(name, levels_, means, low, high))
            else:
                marks.append(Line(name, levels_, means, dashed="another run" in name or name == "RankSVM"))
        axis = "predicted failure" if "predicted" in how else "failure level: baseline minus best feature"
        plots.append(
            Plot(
                f"{metric}, {how}",
                _SEEN[how],
                x=Axis(axis),
                y=Axis(f"{metric}, mean of the level"),
                marks=marks,
                intervals="95 % (Student), over the queries of the level; of the baseline only",
            )
        )
    return Findings(
        (
            Table(
                f"{metric} at each failure level",
                ("level", "ranking", "at", "queries", "mean", "low", "high"),
                tuple(rows),
                "Levels in steps of a tenth; below zero the best feature is better than the baseline.",
            ),
            _gains(places, rankings, metric, study.seed),
        ),
        tuple(plots),
        _failure_sentences(places, rankings),
    )


_SEEN = {
    "as published": "Every other ranking, a second run of the baseline too, looks better where the baseline failed.",
    "level by another run of the baseline": "The level comes from another run, so the luck of the plotted baseline does not count against it.",
    "predicted from the query's documents (0 worst, 4 best)": "This level is known beforehand, so it can say where models of clusters help.",
}


def _lowest(how: str, where: Vector) -> Bits:
    """Return which queries the baseline fails on: levels of -0.1 and below, or the worst fifth."""
    return np.asarray(where == 0 if "predicted" in how else where < -0.05, np.bool_)


def _gains(places: dict[str, Vector], rankings: dict[str, Vector], metric: str, seed: int) -> Table:
    pairs = []
    for how, where in places.items():
        low = _lowest(how, where)
        if low.any():
            pairs += [
                Pair(f"{name}, {how}", figures[low], rankings["baseline"][low])
                for name, figures in rankings.items()
                if name not in {"baseline", "best feature"} and "oracle" not in name
            ]
    return paired_table(f"{metric} beside the baseline where it fails", pairs, seed=seed)


def _failure_sentences(places: dict[str, Vector], rankings: dict[str, Vector]) -> tuple[str, ...]:
    sentences = []
    for how, where in places.items():
        low = _lowest(how, where)
        if not low.any():
            continue
        base = rankings["baseline"][low].mean()
        gains = {
            name: rankings[name][low].mean() - base
            for name in ("k-means, selective", "k-means, fusion", "baseline, another run", "RankSVM")
        }
        listed = ", ".join(f"{name} {gain:+.3f}" for name, gain in gains.items())
        sentences.append(
            f"Where the baseline fails ({how}; {np.count_nonzero(low)} queries), beside it: {listed}."
        )
    return tuple(sentences)


_PROTOCOL = Protocol(
    "the paper's",
    "five folds, training and test queries only, the notebooks' procedure with their errors (reciprocal rank, empty "
    "vectors, profiles of seen queries); LightGBM with pyltr's settings stands for pyltr",
)

EXPERIMENTS = (
    Experiment(
        name="adaptive-table2",
        paper=PAPER,
        figure="Table 2",
        title="Eight metrics of the best feature, one global model, and clusters selected, fused and by oracle",
        protocol=Protocol(
            "the paper's",
            f"{_PROTOCOL.text}. Beside it the repaired method: profiles of queries that the models have not seen, the same learner "
            "stopped by validation queries on both sides, the number of clusters chosen on them with 1 among the candidates",
        ),
        not_run="MQ2007 cannot be redistributed and was not available; MQ2008 has the same collection, features and grades.",
        paper_data=PAPER_DATA,
        plan=_plan_table,
        find=table_2,
    ),
    *(
        Experiment(
            name=f"adaptive-fig{number}",
            paper=PAPER,
            figure=f"Figure {number}",
            title=f"{metric} against the failure level of the baseline",
            protocol=_PROTOCOL,
            not_run="MQ2007 was not available.",
            paper_data=PAPER_DATA,
            plan=_plan,
            find=lambda study, metric=metric: figure(study, metric),  # type: ignore[misc]
        )
        for number, metric in ((4, "ndcg@5"), (5, "mrr@100"))
    ),
)
