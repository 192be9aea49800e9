"""Triples of queries: one is near another but needs a different ranking (LocalRank, section 2.4 and Figure 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from localrank.contract import FeatureContract
from localrank.gaussian import GaussianRepresentation
from localrank.measures import one_to_many
from localrank.metrics import Judgements
from localrank.principal import principal_variances
from localrank.signature import PcaRepresentation, choose_components
from localrank.vectors import MeanRepresentation
from localrank_papers.figures.findings import Findings, spread_of
from localrank_papers.figures.fits import Fit
from localrank_training.clouds import Clouds
from localrank_training.data.queries import QuerySet, default_names
from localrank_training.learners.lesson import Lesson
from localrank_training.learners.svmmap import SvmMap
from localrank_training.report import Axis, Dots, Level, Plot, Table
from localrank_training.representations import pooled_covariance

if TYPE_CHECKING:
    from localrank.arrays import Vector
    from localrank_papers.figures.fits import Arrays
    from localrank_papers.figures.folds import Fold
    from localrank_papers.figures.role import Study

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
    # The similarities of `localrank.measures` as the paper's distances: 1 - cosine, JS, 1 - K, the norm.
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
    return Fit(triples, settings={"spread": spread, "seed": seed})


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
