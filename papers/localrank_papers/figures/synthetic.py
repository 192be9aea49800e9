"""Triples of queries: one is near another but needs a different ranking (LocalRank, section 2.4 and Figure 1)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from localrank.features.contract import FeatureContract
from localrank.features.principal import principal_variances
from localrank.metrics import Judgements
from localrank.points.gaussian import GaussianRepresentation
from localrank.points.signature import PcaRepresentation, choose_components
from localrank.points.similarity import one_to_many
from localrank.points.vectors import MeanRepresentation
from localrank_papers.figures.fits import Fit
from localrank_papers.figures.folds import Fold
from localrank_papers.figures.geometry import Geometry, Nearness, nearness
from localrank_papers.figures.paired import Pair, paired_table
from localrank_papers.figures.study import Findings, spread_of
from localrank_papers.figures.transfer import School
from localrank_training.data.clouds import Clouds
from localrank_training.data.queries import QuerySet, default_names
from localrank_training.data.synthetic import Recipe, synthesize
from localrank_training.grouping.representations import pooled_covariance
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.svmmap import SvmMap
from localrank_training.report import Axis, Dots, Level, Line, Plot, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localrank.arrays import Indices, Vector
    from localrank_papers.figures.fits import Arrays
    from localrank_papers.figures.study import Study

#: What makes the documents of a query differ most: what makes them relevant, as in the paper, or something else.
Spread = Literal["relevance", "something else"]
#: The paper's four, by their columns in its figure.
DISTANCES = ("PCA", "symmetric KL", "Bhattacharyya", "means (KNN)")
TRIPLES, DOCUMENTS, FEATURES = 200, 100, 6


def three_queries(spread: Spread, seed: int) -> QuerySet:
    """Draw a triple: q1; q2, which is ranked like q1 but lies far away; q3, which lies near q1 but is ranked otherwise.

    Relevant documents of q1 and q2 lie further along one direction, those of q3 along another, at right angles. If the spread is
    something else, q3 also shares the direction of the largest variance with q1, and q2 does not.
    """
    rng = np.random.default_rng([seed, get_args(Spread).index(spread)])
    frame = np.linalg.qr(rng.standard_normal((FEATURES, FEATURES)))[0]
    good, other, wide, otherwise = frame[:, :4].T
    labels = np.tile(np.repeat([1.0, 0.0], DOCUMENTS // 2), 3)
    documents = []
    for far, direction, widest in ((0.0, good, wide), (8.0, good, otherwise), (0.3, other, wide)):
        sides = np.repeat([1.0, -1.0], DOCUMENTS // 2)[:, None]
        cloud = rng.standard_normal((DOCUMENTS, FEATURES))
        if spread == "relevance":
            cloud += 6.0 * sides * direction
        else:
            cloud += 1.0 * sides * direction + 6.0 * rng.standard_normal((DOCUMENTS, 1)) * widest
        documents.append(cloud + far * frame[:, 4])
    return QuerySet(
        documents=np.concatenate(documents).astype(np.float32),
        labels=labels,
        offsets=np.arange(4) * DOCUMENTS,
        query_ids=("q1", "q2", "q3"),
        feature_names=default_names(FEATURES),
        lines=np.arange(3 * DOCUMENTS),
    )


def compared_triple(queries: QuerySet) -> tuple[Vector, Vector]:
    """Return the MAP of q2 and q3 by a model of q1, ``[2]``, and their distances from q1, ``[4, 2]``."""
    contract = FeatureContract.learn(queries.documents, queries.lengths.tolist(), normalise="none")
    clouds = Clouds(queries, contract)
    scorer = SvmMap().fit(Lesson(queries.select([0])))
    scores = queries.documents @ scorer.weights
    average_precisions = Judgements(queries.labels, queries.offsets).per_query(scores, "map")[1:]
    spectra = [principal_variances(cloud.normalised) for cloud in clouds]
    signatures = PcaRepresentation(choose_components(spectra)).of_all(clouds)
    # Hardly any of the pooled covariance: there are many more documents than features.
    normals = GaussianRepresentation(pooled_covariance(clouds), 1e-9).of_all(clouds)
    means = MeanRepresentation().of_all(clouds)
    pca = one_to_many(signatures.of(0), signatures, "eq5")[1:]
    kl = one_to_many(normals.of(0), normals, "kl")[1:]
    kernel = one_to_many(normals.of(0), normals, "bhattacharyya")[1:]
    apart = one_to_many(means.of(0), means, "euclidean")[1:]
    # The similarities of `localrank.points.similarity` as the paper's distances: 1 - cosine, JS, 1 - K, the norm.
    distances = np.stack([1 - pca, 1 / kl - 1, 1 - np.exp(1 - 1 / kernel), 1 / apart - 1])
    return average_precisions, distances


def triples(_fold: Fold | None, spread: Spread, seed: int) -> Arrays:
    """Draw and compare `TRIPLES` triples."""
    found = [compared_triple(three_queries(spread, seed * TRIPLES + number)) for number in range(TRIPLES)]
    return {"map": np.stack([one for one, _ in found]), "distances": np.stack([one for _, one in found])}


def fits_of(study: Study) -> list[Fit]:
    """Return the fits of figure 1: one for each kind of spread."""
    return [_triples(spread, study.seed) for spread in get_args(Spread)]


def _triples(spread: Spread, seed: int) -> Fit:
    return Fit.of(triples, spread=spread, seed=seed)


def figure_1(study: Study) -> Findings:
    """Compare what a similarity says with what a model of the other query reaches."""
    rows: list[tuple[str | int | float | None, ...]] = []
    right: dict[Spread, Vector] = {}
    for spread in get_args(Spread):
        found = study.of(_triples(spread, study.seed))
        for number, query in enumerate(("q2", "q3")):
            means = found["distances"][:, :, number].mean(axis=0)
            rows.append((spread, query, float(found["map"][:, number].mean()), *map(float, means)))
        better = found["map"][:, 0] > found["map"][:, 1]
        nearer = found["distances"][:, :, 0] < found["distances"][:, :, 1]
        right[spread] = (nearer == better[:, None]).mean(axis=0)
    agreement = Table(
        "How often the nearer query is the one that the model of q1 ranks better",
        ("documents differ most in", *DISTANCES),
        tuple((spread, *map(float, shares)) for spread, shares in right.items()),
        f"Shares of {TRIPLES} triples; 0.5 is guessing.",
    )
    plot = Plot(
        "How often a distance finds the query whose model serves",
        "The distance of principal directions is right exactly if relevance is what spreads the documents.",
        x=Axis("distance", categories=DISTANCES),
        y=Axis("share of triples", zero=True, high=1.05),
        marks=[
            *(
                Dots(f"documents differ most in {spread}", list(range(len(DISTANCES))), shares.tolist())
                for spread, shares in right.items()
            ),
            Level("guessing", 0.5),
        ],
    )
    low, high = spread_of(study.of(_triples("relevance", study.seed))["map"][:, 1].tolist())
    first, second = right["relevance"], right["something else"]
    return Findings(
        tables=(
            Table(
                "MAP by a model of q1, and distances from q1; means over triples",
                ("documents differ most in", "query", "MAP", *DISTANCES),
                tuple(rows),
                f"MAP of q3 lies between {low:.2f} and {high:.2f} in nine of ten triples of the first kind.",
            ),
            agreement,
        ),
        plots=(plot,),
        sentences=(
            (
                f"If relevance spreads the documents, principal directions find the query whose model serves in {first[0]:.0%} of the "
                f"triples, and the other distances in at most {first[1:].max():.0%}, as in the paper."
            ),
            (
                f"If something else spreads them, principal directions are right in {second[0]:.0%}: the figure shows a property of "
                "its own data."
            ),
            "The paper's text says that q1 and q2 have similar means; its numbers say that q1 and q3 have, and so do ours.",
        ),
    )


# ------------------------------------------------------------------------------------------------
# Clusters beside the true kinds of queries, where these are known: synthetic queries (LocalRank's conclusion, second point).
#
# Queries are of four kinds (`localrank_training.data.synthetic`). ``shapes`` says how much the clouds of the kinds differ, ``separation`` how
# much what is relevant differs. Clusters can find kinds only by the first; local models can gain only from the second.

KINDS = 4
SHAPES = (0.0, 0.25, 0.5, 1.0)
SEPARATIONS = (0.0, 1.0)
#: Queries to learn from, to validate and to test; documents of each; sets of queries for each setting.
QUERIES, KIND_DOCUMENTS, SETS = (80, 40, 80), 30, 3
#: Strengths of SVMmap, chosen on validation queries for each way by itself.
STRENGTHS = (10.0, 1.0)
_WAYS = ("one model", "clusters", "kinds")


def against_kinds(
    _fold: Fold | None,
    *,
    shapes: float,
    separation: float,
    seed: int,
    queries: Sequence[int],
    documents: int,
    strengths: Sequence[float],
    draws: int,
) -> Arrays:
    """Cluster queries of known kinds, and rank by models of clusters, of kinds, and of all.

    Returns:
        ``rand`` the adjusted Rand index of clusters and kinds; ``routed`` the share of test queries whose cluster has mostly queries of
        their kind; ``rand, random [draws]`` of random clusters; for each way ``[n_queries]`` the average precision of the test queries,
        and for random clusters the mean over the draws.
    """
    from sklearn.metrics import adjusted_rand_score

    recipe = Recipe(
        documents=(documents, documents), kinds=KINDS, shapes=shapes, separation=separation, levels=3
    )
    drawn = [synthesize(count, recipe, seed=seed, sample=number) for number, count in enumerate(queries)]
    fold = Fold(1, *(part for part, _ in drawn))
    of_train, of_validation, of_test = (kinds for _, kinds in drawn)
    near = Nearness.of(nearness(fold, **asdict(Geometry())))
    labels = near.tree.cut(KINDS)
    routes = {part: labels[near.similarities[part].argmax(axis=1)] for part in ("validation", "test")}
    schools = [School.of(fold, "svmmap", {"C": strength}, "standard") for strength in strengths]
    everybody = {"validation": np.zeros(len(of_validation)), "test": np.zeros(len(of_test))}
    found: Arrays = {
        "rand": np.array([adjusted_rand_score(of_train, labels)]),
        "routed": np.array([np.mean(_commonest(of_train, labels, routes["test"]) == of_test)]),
        "one model": _ranked(schools, np.zeros(len(of_train)), everybody),
        "clusters": _ranked(schools, labels, routes),
        "kinds": _ranked(schools, of_train, {"validation": of_validation, "test": of_test}),
    }
    rng = np.random.default_rng([seed, 2])
    random, rands = [], []
    for _ in range(draws):
        order = rng.permutation(len(labels))
        shuffled = labels[order]
        rands.append(adjusted_rand_score(of_train, shuffled))
        there = {part: shuffled[near.similarities[part].argmax(axis=1)] for part in routes}
        random.append(_ranked(schools, shuffled, there))
    found["rand, random"] = np.array(rands)
    if draws:
        found["random clusters"] = np.mean(random, axis=0)
    return found


def _commonest(kinds: Indices, labels: Indices, asked: Indices) -> Indices:
    """Return the kind that most queries of each asked cluster are of."""
    return np.array([np.bincount(kinds[labels == label]).argmax() for label in asked])


def _ranked(schools: Sequence[School], groups: Vector | Indices, routes: dict[str, Any]) -> Vector:
    """Return the average precision of every test query by the model of its group; validation MAP chooses the
    setting.
    """
    best, chosen = -np.inf, np.zeros(len(routes["test"]))
    for school in schools:
        found = {part: np.empty(len(asked)) for part, asked in routes.items()}
        for group in np.unique(groups).tolist():
            scorer = school.taught(np.flatnonzero(groups == group))
            for part, asked in routes.items():
                mine = asked == group
                found[part][mine] = school.measured(scorer, part)[mine, 0]
        if found["validation"].mean() > best:
            best, chosen = float(found["validation"].mean()), found["test"]
    return chosen


def _fits(study: Study, shapes: float, separation: float) -> list[Fit]:
    return [
        Fit.of(
            against_kinds,
            shapes=shapes,
            separation=separation,
            seed=study.seed * SETS + number,
            queries=list(QUERIES),
            documents=KIND_DOCUMENTS,
            strengths=list(STRENGTHS),
            draws=study.draws,
        )
        for number in range(SETS)
    ]


def fits_of_kinds(study: Study) -> list[Fit]:
    """Return the fits of all settings."""
    return [
        fit for separation in SEPARATIONS for shapes in SHAPES for fit in _fits(study, shapes, separation)
    ]


def figure(study: Study) -> Findings:
    """Show how well clusters agree with kinds, and the gain of local models, depending on how much the clouds
    differ.
    """
    rows: list[tuple[object, ...]] = []
    pairs = []
    rand, gains = {}, {}
    ways = (*_WAYS, *(("random clusters",) if study.draws else ()))
    for separation in SEPARATIONS:
        for shapes in SHAPES:
            found = [study.of(fit) for fit in _fits(study, shapes, separation)]
            figures = {way: np.concatenate([one[way] for one in found]) for way in ways}
            index = [float(one["rand"][0]) for one in found]
            by_chance = np.concatenate([one["rand, random"] for one in found])
            rows.append(
                (
                    separation,
                    shapes,
                    float(np.mean(index)),
                    *(spread_of(by_chance.tolist()) if study.draws else (None, None)),
                    float(np.mean([one["routed"][0] for one in found])),
                    *(float(figures[way].mean()) for way in ways),
                )
            )
            name = f"separation {separation:g}, shapes {shapes:g}"
            pairs.append(Pair(f"clusters − one model, {name}", figures["clusters"], figures["one model"]))
            rand[separation, shapes] = float(np.mean(index))
            gains[separation, shapes] = {
                way: float(figures[way].mean() - figures["one model"].mean()) for way in ways
            }
    apart, alike = SEPARATIONS[-1], SEPARATIONS[0]
    lines = [
        Line(
            f"{way}, separation {separation:g}",
            SHAPES,
            [gains[separation, shapes][way] for shapes in SHAPES],
            dashed=way != "clusters",
        )
        for separation in SEPARATIONS
        for way in ways[1:]
    ]
    return Findings(
        [
            Table(
                "Clusters beside kinds, and MAP by models of either; means over the sets",
                (
                    "separation",
                    "shapes",
                    "adjusted Rand index",
                    "of random clusters, 5 %",
                    "95 %",
                    "test queries routed to their kind",
                    *(f"MAP, {way}" for way in ways),
                ),
                rows,
                f"{SETS} sets of {QUERIES[0]} training and {QUERIES[2]} test queries, {KIND_DOCUMENTS} documents each, {KINDS} kinds, as many "
                "clusters. The index is 1 if clusters are the kinds and 0 on average by chance. `kinds` knows the kind of every query.",
            ),
            paired_table(
                "MAP of clusters beside one model",
                pairs,
                "All rows are adjusted together (Holm).",
                seed=study.seed,
            ),
        ],
        [
            Plot(
                "How well clusters are kinds",
                "Principal directions find kinds whose clouds differ, whether or not different things are relevant to them.",
                x=Axis("shapes: how much the clouds of kinds differ"),
                y=Axis("adjusted Rand index", zero=True, high=1.0),
                marks=[
                    *(
                        Line(
                            f"separation {separation:g}",
                            SHAPES,
                            [rand[separation, shapes] for shapes in SHAPES],
                        )
                        for separation in SEPARATIONS
                    ),
                    Level("chance", 0.0),
                ],
            ),
            Plot(
                "What local models win over one model",
                "Without separation the same is relevant to all kinds, so dividing the queries only costs.",
                x=Axis("shapes: how much the clouds of kinds differ"),
                y=Axis("MAP minus that of one model"),
                marks=[*lines, Level("one model", 0.0)],
            ),
        ],
        [
            (
                f"If kinds differ in shape and in what is relevant, clusters are the kinds (adjusted Rand index {rand[apart, 1.0]:.2f}) and win "
                f"{gains[apart, 1.0]['clusters']:+.3f} MAP over one model; knowing the kinds wins {gains[apart, 1.0]['kinds']:+.3f}."
            ),
            (
                f"If they differ in what is relevant but not in shape, clusters are no kinds ({rand[apart, 0.0]:.2f}) and win "
                f"{gains[apart, 0.0]['clusters']:+.3f}, knowing the kinds {gains[apart, 0.0]['kinds']:+.3f}."
            ),
            (
                f"If they differ in shape alone, clusters are the kinds ({rand[alike, 1.0]:.2f}) and win {gains[alike, 1.0]['clusters']:+.3f}: "
                "finding kinds is not enough."
            ),
            "The paper announces this comparison in its conclusion and reports nothing; no public set tells the kinds of real queries.",
        ],
    )
