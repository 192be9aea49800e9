"""The experiments of LocalRank [banerjee2009]: models of clusters of queries that are alike by principal directions."""

from __future__ import annotations

from localrank_training.experiments import sweeps, triples
from localrank_training.experiments.geometry import Geometry
from localrank_training.experiments.role import Experiment, Protocol
from localrank_training.experiments.transfer import Models

__all__ = ["CANDIDATES", "EXPERIMENTS", "MODELS"]

PAPER = "Banerjee, Dubey, Machchhar, Chakrabarti: Efficient and Accurate Local Learning for Ranking (2009)"
#: Of its accuracy figures.
SETS = ("TD2003", "TD2004", "HP2003", "HP2004", "NP2003", "NP2004", "OHSUMED")
UNAVAILABLE = (
    "TD2003, TD2004, HP2003, HP2004, NP2003, NP2004: LETOR 3.0's .gov sets are not to be had any more"
)
YANDEX = "the whole Yandex set of 2009 is not to be had any more"

#: Candidates for the number of clusters; one cluster is among them.
CANDIDATES = (1, 2, 3, 4, 5, 6, 8, 10)
#: The paper's B; it prints 0.01 twice.
STRENGTHS = tuple({"C": strength} for strength in (10.0, 1.0, 0.1, 0.01, 0.001))
#: The paper's method: complete link by equation 5, SVMmap in every cluster.
MODELS = Models(Geometry(), "svmmap", STRENGTHS)

_SWEEP = (
    "P covers 80 % of the variance of the median query and is one number for all queries; B is chosen on validation queries for "
    "every number of clusters; test queries are compared with all training queries, without hashing; no cleaning of the data"
)


def _sweep(name: str, figure: str, metric: str, paper_data: str, saw: str) -> Experiment:
    return Experiment(
        name=name,
        paper=PAPER,
        figure=figure,
        title=f"{metric.upper()} against the number of clusters",
        protocol=Protocol("ours", _SWEEP),
        not_run=UNAVAILABLE,
        paper_data=(paper_data,),
        plan=lambda study: sweeps.fits_of(study, MODELS, CANDIDATES),
        find=lambda study: sweeps.by_clusters(study, MODELS, metric, CANDIDATES, saw),
    )


EXPERIMENTS = (
    Experiment(
        name="localrank-fig1",
        paper=PAPER,
        figure="Figure 1",
        title="Four distances between queries, and which query's model serves",
        protocol=Protocol(
            "ours",
            "the paper draws three queries once and gives no parameters; here many triples are drawn, and as many again in "
            "which relevance is not what spreads the documents",
        ),
        not_run="",
        paper_data=(),
        needs_data=False,
        synthetic="triples of queries drawn from normal distributions, as in the paper",
        plan=triples.fits_of,
        find=triples.figure_1,
    ),
    Experiment(
        name="localrank-fig4",
        paper=PAPER,
        figure="Figure 4",
        title="The clairvoyant training query and the most similar one",
        protocol=Protocol("ours", _SWEEP),
        not_run=UNAVAILABLE,
        paper_data=SETS,
        plan=lambda study: sweeps.fits_of(study, MODELS),
        find=lambda study: sweeps.clairvoyant_queries(study, MODELS),
    ),
    Experiment(
        name="localrank-fig5",
        paper=PAPER,
        figure="Figure 5",
        title="Where likeness ranks the clairvoyant training query",
        protocol=Protocol("ours", _SWEEP),
        not_run=UNAVAILABLE,
        paper_data=SETS,
        plan=lambda study: sweeps.fits_of(study, MODELS),
        find=lambda study: sweeps.ranks_of_clairvoyant(study, MODELS),
    ),
    _sweep(
        "localrank-fig6",
        "Figure 6",
        "map",
        "TD2003",
        "The paper sees MAP rise from one model to four clusters and fall below it after that, and the clairvoyant line rise all "
        "the way; it gives no intervals and no control.",
    ),
    _sweep(
        "localrank-fig7",
        "Figure 7",
        "ndcg@1",
        "HP2004",
        "The paper sees the peak at more than one cluster, without intervals and controls.",
    ),
    _sweep(
        "localrank-fig8",
        "Figure 8",
        "ndcg@5",
        "HP2004",
        "The paper sees the peak at more than one cluster, without intervals and controls.",
    ),
)
