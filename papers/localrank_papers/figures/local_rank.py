"""The experiments of LocalRank [banerjee2009]: models of clusters of queries that are alike by principal directions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from localrank_papers.figures import algorithms, compact, contenders, sweeps, synthetic, times
from localrank_papers.figures.contenders import Contender
from localrank_papers.figures.geometry import Geometry
from localrank_papers.figures.study import Experiment, Protocol
from localrank_papers.figures.transfer import Models
from localrank_training.report import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from localrank_papers.figures.fits import Fit
    from localrank_papers.figures.study import Findings, Study

PAPER = "Banerjee, Dubey, Machchhar, Chakrabarti: Efficient and Accurate Local Learning for Ranking (2009)"
#: Of its accuracy figures.
SETS = ("TD2003", "TD2004", "HP2003", "HP2004", "NP2003", "NP2004", "OHSUMED")
UNAVAILABLE = "TD2003, TD2004, HP2003, HP2004, NP2003, NP2004: LETOR 3.0's .gov sets are no longer available"
YANDEX = "the whole Yandex set of 2009 is no longer available"

#: Candidates for the number of clusters; one cluster is among them.
CANDIDATES = (1, 2, 3, 4, 5, 6, 8, 10)
#: The paper's B; it prints 0.01 twice.
STRENGTHS = tuple({"C": strength} for strength in (10.0, 1.0, 0.1, 0.01, 0.001))
#: The paper's method: complete link by equation 5, SVMmap in every cluster.
MODELS = Models(Geometry(), "svmmap", STRENGTHS)

#: The candidates for comparisons of many ways to cluster.
FEW = ({"C": 10.0}, {"C": 1.0}, {"C": 0.1})

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


# ------------------------------------------------------------------------------------- other ways to cluster, side by side

PCA = "PCA, equation 5"


def _way(name: str, **geometry: Any) -> Contender:
    """Return a way to cluster that differs from the paper's in some settings."""
    other = replace(MODELS.geometry, **geometry)
    return Contender(name, replace(MODELS, geometry=other, settings=FEW, cuts=tuple(CANDIDATES)))


def _moments() -> list[Contender]:
    several = (("mean", "Mean"), ("variance", "Variance"), ("skew", "Skewness"))
    return [
        Contender(PCA, MODELS),
        *(_way(name, representation=one, similarity="euclidean") for one, name in several),
    ]


#: How much of a query's covariance is that within all training queries: little, as by default, nearly all.
REGULARISATIONS = (0.1, 0.5, 0.9)


def _distributions() -> list[Contender]:
    several = (("kl", "KL, half of Jeffreys'"), ("bhattacharyya", "Bhattacharyya"))
    return [
        Contender(PCA, MODELS),
        *(
            _way(f"{name}, shrunk by {shrink:g}", representation="gaussian", similarity=one, shrink=shrink)
            for one, name in several
            for shrink in REGULARISATIONS
        ),
    ]


def _links() -> list[Contender]:
    ways = []
    for link in ("complete", "average", "single"):
        by_link = Contender(PCA, MODELS) if link == "complete" else _way(PCA, link=link)
        ways += [
            Contender(f"{link} link, {by} member", by_link.models, by)
            for by in ("nearest", "average", "farthest")
        ]
    return ways


#: Shares of the variance that the directions cover; the paper's is 80 %.
SHARES = (0.5, 0.65, 0.8, 0.9, 0.95)
#: More directions than most sets have features.
_ALL_DIRECTIONS = 64


def _shares() -> list[Contender]:
    return [
        _way(f"{share:.0%} of the variance", share=share, most=_ALL_DIRECTIONS)
        if share != MODELS.geometry.share
        else Contender(f"{share:.0%} of the variance", MODELS)
        for share in SHARES
    ]


def _components() -> list[Contender]:
    shares = (0.8, 0.95)
    return [
        Contender("80 %, P of the median query", MODELS),
        _way("95 %, P of the median query", share=0.95, most=_ALL_DIRECTIONS),
        *(_way(f"{share:.0%}, P of each query", share=share, own_components=True) for share in shares),
    ]


def _labelled() -> list[Contender]:
    return [
        Contender("without labels: " + PCA, MODELS),
        _way("principal directions of relevant documents", clustered_by="relevant_pca"),
        _way("direction from the others to the relevant ones", clustered_by="relevant_direction"),
        _way("mean of relevant documents", clustered_by="relevant_mean"),
    ]


def _comparison(
    name: str,
    figure: str,
    *,
    title: str,
    ways: Callable[[], list[Contender]],
    reference: str,
    protocol: str,
    says: str,
    paper_data: tuple[str, ...] = SETS,
    printed: Sequence[Table] = (),
) -> Experiment:
    # The ways are made when they are asked for, as tests change what they are made of.
    def plan(study: Study) -> list[Fit]:
        return contenders.fits_of(study, ways())

    def find(study: Study) -> Findings:
        return contenders.compare(
            study,
            ways(),
            CANDIDATES,
            FEW,
            title="Means over the test queries",
            reference=reference,
            says=says,
            printed=printed,
        )

    return Experiment(
        name=name,
        paper=PAPER,
        figure=figure,
        title=title,
        protocol=Protocol("ours", protocol),
        not_run=UNAVAILABLE,
        paper_data=paper_data,
        plan=plan,
        find=find,
    )


_SERVED = (
    "models answer through the service, on one worker; times are those that it reports. The paper times its own programs, and says "
    "nothing of the machine"
)
_CHOSEN = (
    "the number of clusters and B are chosen on validation queries, with one cluster among the candidates; the paper tunes the "
    "number of clusters to give the best accuracy, which is shown beside it as hindsight; B is 10, 1 or 0.1"
)
#: Figures 9 and 10, TD2003, HP2003, HP2004: MAP, NDCG@1, NDCG@5.
_PRINTED_COLUMNS = tuple(
    f"{metric} {data}" for metric in ("map", "ndcg@1", "ndcg@5") for data in ("TD2003", "HP2003", "HP2004")
)
_PRINTED = {
    "Mean": (0.275, 0.785, 0.765, 0.407, 0.773, 0.681, 0.327, 0.828, 0.855),
    "Variance": (0.294, 0.777, 0.750, 0.344, 0.751, 0.680, 0.370, 0.823, 0.839),
    "Skewness": (0.301, 0.777, 0.760, 0.424, 0.758, 0.694, 0.357, 0.824, 0.827),
    "KL-Divergence": (0.313, 0.782, 0.751, 0.427, 0.765, 0.680, 0.371, 0.837, 0.834),
    "Bhattacharyya": (0.265, 0.784, 0.741, 0.367, 0.765, 0.678, 0.331, 0.835, 0.837),
    "LocalRank": (0.333, 0.798, 0.769, 0.447, 0.787, 0.707, 0.395, 0.843, 0.859),
}


def _printed(*rows: str) -> Table:
    return Table(
        "What the paper prints, on its own data",
        ("", *_PRINTED_COLUMNS),
        [(row, *_PRINTED[row]) for row in rows],
        "The number of clusters was tuned to give the best accuracy on the test queries.",
    )


COMPARISONS = (
    _comparison(
        "localrank-fig9",
        "Figure 9",
        title="Principal directions beside mean, variance and skewness",
        ways=_moments,
        reference=PCA,
        protocol=_CHOSEN,
        says=(
            "The paper finds principal directions above all three on three sets, with the number of clusters tuned on the test "
            "queries, and without intervals."
        ),
        paper_data=("TD2003", "HP2003", "HP2004"),
        printed=(_printed("Mean", "Variance", "Skewness", "LocalRank"),),
    ),
    _comparison(
        "localrank-fig10",
        "Figure 10",
        title="Principal directions beside symmetric KL divergence and the Bhattacharyya kernel",
        ways=_distributions,
        reference=PCA,
        protocol=_CHOSEN
        + "; covariances are shrunk by three shares towards that within all training queries, as they have no inverse otherwise; "
        "the paper does not say what it does about that",
        says=(
            "The paper finds principal directions above both on three sets, with the number of clusters tuned on the test queries, "
            "and without intervals. What it calls JS is half of Jeffreys' divergence."
        ),
        paper_data=("TD2003", "HP2003", "HP2004"),
        printed=(_printed("KL-Divergence", "Bhattacharyya", "LocalRank"),),
    ),
    _comparison(
        "localrank-assignment",
        "ablation of Figure 2",
        title="How clusters are linked, and which member a query is compared with",
        ways=_links,
        reference="complete link, nearest member",
        protocol=f"{_CHOSEN}. Complete link and nearest member are those of the paper's Figure 2; its conclusion speaks of single link",
        says="The paper clusters by complete link, looks a query up by its nearest member, and calls that single link once.",
    ),
    _comparison(
        "localrank-share",
        "ablation of section 4.1.2",
        title="The share of the variance that the directions cover",
        ways=_shares,
        reference="80% of the variance",
        protocol=f"{_CHOSEN}. P is what covers the share for the median query, without the bound of 8 that is the default",
        says="The paper says that 80 % is generally better, without numbers.",
    ),
    _comparison(
        "localrank-components",
        "ablation of equation 5",
        title="P of each query against one P for all",
        ways=_components,
        reference="80 %, P of the median query",
        protocol=f"{_CHOSEN}. With P of each query, two are compared over as many directions as the one with fewer has",
        says="The paper takes P from each query, and does not say how equation 5 compares two queries of different P.",
    ),
    _comparison(
        "localrank-labels",
        "future work: clouds with labels",
        title="Clusters by documents and their labels",
        ways=_labelled,
        reference="without labels: " + PCA,
        protocol=f"{_CHOSEN}. Training queries are clustered with labels; queries are routed without, by equation 5",
        says="The paper proposes such clouds in its conclusion and reports nothing.",
    ),
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
        plan=synthetic.fits_of,
        find=synthetic.figure_1,
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
    *COMPARISONS,
    Experiment(
        name="localrank-fig11",
        paper=PAPER,
        figure="Figure 11",
        title="LocalRank beside SVMmap, RankBoost, Duh and Kirchhoff's ranking and KNN",
        protocol=Protocol(
            "ours",
            "the data as they are, and cleaned as in the paper; numbers of clusters and neighbours, B and rounds of boosting are chosen on "
            "validation queries; KNN represents a query by all features, as the paper does for OHSUMED; KNN and D&K have the B of one "
            "model; the paper says that it uses cross-validation, and not how",
        ),
        not_run=f"{UNAVAILABLE}; {YANDEX}",
        paper_data=(*SETS, "Yandex"),
        plan=lambda study: (
            sweeps.fits_of(study, MODELS, CANDIDATES) + algorithms.fits_of(study, MODELS, CANDIDATES)
        ),
        find=lambda study: algorithms.compare(study, MODELS, CANDIDATES),
    ),
    *(
        Experiment(
            name=f"localrank-fig{number}",
            paper=PAPER,
            figure=f"Figure {number}",
            title=title,
            protocol=Protocol("ours", protocol),
            not_run=f"{YANDEX}; smaller sets cannot show what its 7,900 queries do to KNN and D&K",
            paper_data=("Yandex",),
            plan=plan,
            find=find,
        )
        for number, title, protocol, plan, find in (
            (
                12,
                "Time of one query against the number of training queries",
                _SERVED,
                times.plan,
                times.figure_12,
            ),
            (
                13,
                "Time of learning against the number of training queries",
                "processor time of one run in fold 1, without the tuning that the paper's times contain",
                times.plan,
                times.figure_13,
            ),
            (
                14,
                "Time to select a model with and without hash tables",
                f"{_SERVED}; training queries are drawn again so that there are enough",
                times.plan_of_selection,
                times.figure_14,
            ),
        )
    ),
    Experiment(
        name="localrank-fig15",
        paper=PAPER,
        figure="Figure 15",
        title="One model of quadratic features beside local models",
        protocol=Protocol("ours", _SWEEP),
        not_run=UNAVAILABLE,
        paper_data=algorithms.PRODUCT_SETS,
        plan=lambda study: algorithms.fits_of_products(study, MODELS, CANDIDATES),
        find=lambda study: algorithms.compare_products(study, MODELS, CANDIDATES),
    ),
    Experiment(
        name="localrank-kinds",
        paper=PAPER,
        figure="future work: clusters and known kinds",
        title="Clusters beside the true kinds of queries",
        protocol=Protocol("ours", "the paper announces the comparison and does not say how it would be made"),
        not_run="Queries whose kinds people judged, with features: none are public.",
        paper_data=(),
        plan=synthetic.fits_of_kinds,
        find=synthetic.figure,
        needs_data=False,
        synthetic="queries of four kinds that differ in the shape of their clouds, in what is relevant, or in both",
    ),
    Experiment(
        name="localrank-prototypes",
        paper=PAPER,
        figure="future work: compact clusters",
        title="Few prototypes of a cluster instead of all its queries",
        protocol=Protocol("ours", f"{_SWEEP}; two clusters at least"),
        not_run=UNAVAILABLE,
        paper_data=SETS,
        plan=lambda study: sweeps.fits_of(study, MODELS),
        find=lambda study: compact.compare(study, MODELS, CANDIDATES),
    ),
)
