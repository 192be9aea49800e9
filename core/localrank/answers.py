"""What the service answers, on every route: the shape of each answer is declared here, and nowhere else.

The service makes its OpenAPI document from these classes, the clients return some of them, and tests compare real answers
with them. An answer has exactly the members of its class. A member that has a default may be left out; a trailing
underscore only keeps a name from being a keyword of Python (``global_`` is ``global`` in the answer). The suffix ``Schema``
only keeps a class apart from the one that it shows: the OpenAPI document calls `RouteSchema` ``Route``.

`Keywords` adds what a type of Python cannot say. They follow the protocol of pydantic, which this package does not need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")


class Keywords:
    """Keywords of JSON Schema that a type gets besides its own."""

    def __init__(self, **keywords: Any) -> None:
        self._keywords = {name.removesuffix("_"): value for name, value in keywords.items()}

    def __get_pydantic_json_schema__(self, schema: Any, schema_of: Callable[[Any], Any]) -> dict[str, Any]:
        return {**schema_of(schema), **self._keywords}


class _NeverNull:
    """Says that a member is left out rather than null."""

    def __get_pydantic_json_schema__(self, schema: Any, schema_of: Callable[[Any], Any]) -> Any:
        found = schema_of(schema)
        left = [one for one in found["anyOf"] if one != {"type": "null"}]
        return left[0] if len(left) == 1 else {"anyOf": left}


def means(text: str) -> Keywords:
    """Return the description of a member."""
    return Keywords(description=text)


#: A member that is left out if there is nothing to say; it is never null.
LeftOut: TypeAlias = Annotated[_T | None, _NeverNull()]
Count: TypeAlias = Annotated[int, Keywords(minimum=0)]
Rank: TypeAlias = Annotated[int, Keywords(minimum=1)]
Share: TypeAlias = Annotated[float, Keywords(minimum=0, maximum=1)]
Identifier: TypeAlias = str | int | None
Place: TypeAlias = Annotated[tuple[float, ...], Keywords(minItems=2, maxItems=2)]
Milliseconds: TypeAlias = dict[str, float]
#: The generation of each table in which the documents were looked up; left out if there is none.
Generations: TypeAlias = Annotated[
    dict[str, Count], means("The generation of each table in which the documents were looked up.")
]
#: The versions that an experiment compares.
Side: TypeAlias = Literal["baseline", "candidate"]
Arm: TypeAlias = Literal["baseline", "candidate", "interleaved"]


# Errors.


@dataclass(frozen=True, slots=True)
class ProblemSchema:
    """What the service says is wrong, on every route (RFC 9457)."""

    type: str
    title: str
    status: Annotated[int, Keywords(minimum=400, maximum=599)]
    detail: str
    instance: str
    error: str
    pointer: str | None
    live: Annotated[LeftOut[bool], means("Of `/v2/health/ready` only.")] = None
    ready: Annotated[LeftOut[bool], means("Of `/v2/health/ready` only.")] = None
    message: Annotated[LeftOut[str], means("Of `/v2/rerank` only: the same text.")] = None
    loading: Annotated[
        LeftOut[dict[str, Count]],
        means("While models are being loaded: the addresses that are left, with their versions."),
    ] = None
    reason: Annotated[LeftOut[str], means("Of 429 and 503: what is too much or not ready, in one word.")] = (
        None
    )


# Rankings.


@dataclass(frozen=True, slots=True)
class RouteSchema:
    """How the query found its scorer.

    Attributes:
        strategy: the router's name, or ``exact`` if a router with hash tables has compared all training queries.
        cluster: whose scorer it was; ``None`` is the global one.
        similarity: to the nearest training query, or what else the router compares clusters by.
        margin: lead of the best cluster over the second.
        candidates: how many training queries were compared.
        fallback: why another scorer than the strategy's choice answered.
        local: false if the global scorer answered, as the cluster has none of its own or there is no cluster.
        shares: the weight of each cluster's scorer; empty if one scorer answered.
    """

    strategy: str
    cluster: Annotated[Count | None, means("null is the global scorer.")]
    similarity: float | None
    margin: float | None
    candidates: Count
    fallback: str | None
    # Not `const`: openapi-python-client makes wrong code of it if the member is optional.
    local: Annotated[
        bool, Keywords(not_={"const": True}), means("Only if the cluster has no scorer of its own.")
    ] = True
    shares: Annotated[
        tuple[Share, ...],
        Keywords(minItems=1),
        means("The weight of each cluster's scorer, only if several of them answer together."),
    ] = ()


@dataclass(frozen=True, slots=True)
class WarnedSchema:
    """A warning in a successful answer.

    Attributes:
        code: ``feature_imputed``, ``feature_ignored``, ``value_unseen`` (training did not know the value of a category), or
            ``id_unknown`` (a table does not have the ids), or ``warnings_omitted`` with an empty feature.
        feature: which; of ``id_unknown`` the table.
        count: in how many documents.
    """

    code: Literal["feature_imputed", "feature_ignored", "value_unseen", "id_unknown", "warnings_omitted"]
    feature: Annotated[str, means("Of `id_unknown` the table. Empty if warnings are omitted.")]
    count: Annotated[int, Keywords(minimum=1)]


@dataclass(frozen=True, slots=True)
class DegradedSchema:
    """Which cheaper ranking answered, and why."""

    rung: Literal["global", "first_trees", "request_order", "feature_order"]
    reason: Literal["timeout", "overload"]


@dataclass(frozen=True, slots=True)
class PartSchema:
    """The experiment that the request took part in, and the version that answered."""

    name: str
    arm: Arm


@dataclass(frozen=True, slots=True)
class PartWithTeams:
    """The experiment that the request took part in, and the version that answered."""

    name: str
    arm: Arm
    teams: Annotated[
        LeftOut[tuple[Side | None, ...]],
        means(
            "The version that each result comes from, only if the rankings of two versions are interleaved."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class ExplainedFeature:
    """What one feature adds to the difference of two scores."""

    feature: str
    difference: float
    values: Annotated[
        LeftOut[tuple[str | None, ...]], means("Of a category: those of the two documents.")
    ] = None


@dataclass(frozen=True, slots=True)
class ExplainedPair:
    """Why one document is above another."""

    above: Count
    below: Count
    difference: Annotated[float, means("Of the scores.")]
    features: Annotated[
        tuple[ExplainedFeature, ...],
        means("The largest difference first; they add up to the difference of the scores."),
    ]


@dataclass(frozen=True, slots=True)
class ExplainedSignature:
    """The query's signature in short."""

    components: Count
    rank: Count
    eigenvalues: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ExplainedVector:
    """The query's vector in short."""

    width: Count


@dataclass(frozen=True, slots=True)
class ExplainedGaussian:
    """The query's Gaussian in short."""

    width: Count
    log_determinant: float


@dataclass(frozen=True, slots=True)
class ExplainedCluster:
    """How similar a cluster is to the query."""

    cluster: Count
    similarity: float


@dataclass(frozen=True, slots=True)
class NeighbourSchema:
    """A training query that is similar to this one."""

    query: Count
    cluster: Count
    similarity: float
    place: LeftOut[Place] = None


@dataclass(frozen=True, slots=True)
class ExplainedScorer:
    """The scorer that answered, and what training knows of its cluster."""

    cluster: Count | None
    kind: str
    size: LeftOut[Count] = None
    exemplar: str | None = None
    validation: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `explain` adds to an answer: the contributions of the features, or the route."""

    base: Annotated[LeftOut[float], means("The mean score of the list.")] = None
    features: Annotated[LeftOut[tuple[str, ...]], means("The columns of `contributions`.")] = None
    contributions: Annotated[
        LeftOut[tuple[tuple[float, ...], ...]],
        means(
            "One row for each of `results` or `scores`, in their order. The score is the base plus the sum of the row."
        ),
    ] = None
    values: Annotated[
        LeftOut[dict[str, tuple[str | None, ...]]],
        means(
            "The values of each category, by its name; one for each of `results` or `scores`, in their order."
        ),
    ] = None
    comparison: LeftOut[ExplainedPair] = None
    signature: LeftOut[ExplainedSignature] = None
    vector: LeftOut[ExplainedVector] = None
    gaussian: LeftOut[ExplainedGaussian] = None
    clusters: tuple[ExplainedCluster, ...] | None = None
    neighbours: Annotated[
        LeftOut[tuple[NeighbourSchema, ...]],
        means("The most similar training queries, by position, if the router knows them."),
    ] = None
    place: Annotated[LeftOut[Place], means("Place of the query on the model's map, if it is known.")] = None
    scorer: LeftOut[ExplainedScorer] = None
    said: Annotated[
        LeftOut[str], means("Why there is nothing to explain, of the route of a version without clusters.")
    ] = None


@dataclass(frozen=True, slots=True)
class Result:
    """One document of a ranking."""

    rank: Rank
    index: Annotated[Count, means("Position in the request.")]
    score: float
    id: Identifier = None
    relevance_score: Annotated[LeftOut[float], means("Only if the request has `query` or `relevance`.")] = (
        None
    )
    pinned: Annotated[LeftOut[Literal[True]], means("Only of documents that the request pins.")] = None
    boost: Annotated[LeftOut[float], means("What the request adds to the score, which includes it.")] = None
    team: Annotated[
        Side | None,
        means(
            "The version that the result comes from, only if the rankings of two versions are interleaved."
        ),
    ] = None
    document: Annotated[
        LeftOut[dict[str, Any]], means("Only if the request has `return_documents`; a text is its `text`.")
    ] = None


@dataclass(frozen=True, slots=True)
class RerankAnswer:
    """The ranking of one query."""

    request_id: str
    model: str
    version: Count
    results: Annotated[
        tuple[Result, ...],
        means(
            "Ordered by score, then by position in the request, unless they are interleaved; pinned ones come first."
        ),
    ]
    route: RouteSchema
    degraded: DegradedSchema | None
    warnings: tuple[WarnedSchema, ...]
    timings_ms: Annotated[
        Milliseconds,
        means("Each stage in the order of its run, and their total, as in `Server-Timing`."),
    ]
    tables: LeftOut[Generations] = None
    experiment: LeftOut[PartSchema] = None
    explanation: LeftOut[Explanation] = None


@dataclass(frozen=True, slots=True)
class ScoresAnswer:
    """The scores of one query's documents, if the request asks for them instead of the ranking."""

    request_id: str
    model: str
    version: Count
    scores: Annotated[
        tuple[float, ...], means("One for each document, in the order of the request; boosts are in them.")
    ]
    route: RouteSchema
    degraded: DegradedSchema | None
    warnings: tuple[WarnedSchema, ...]
    timings_ms: Annotated[
        Milliseconds,
        means("Each stage in the order of its run, and their total, as in `Server-Timing`."),
    ]
    tables: LeftOut[Generations] = None
    experiment: LeftOut[PartSchema] = None
    explanation: LeftOut[Explanation] = None


@dataclass(frozen=True, slots=True)
class BatchRanked:
    """One query of a batch that was answered."""

    status: Literal[200]
    answer: RerankAnswer | ScoresAnswer


@dataclass(frozen=True, slots=True)
class BatchRefused:
    """One query of a batch that was refused or failed."""

    status: Annotated[int, Keywords(minimum=400, maximum=599)]
    problem: ProblemSchema


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """The rankings of several queries."""

    request_id: str
    answers: Annotated[
        tuple[BatchRanked | BatchRefused, ...],
        means("One for each query, in their order. Pointers start at the whole body."),
    ]
    timings_ms: Milliseconds


@dataclass(frozen=True, slots=True)
class CohereResult:
    """One document of a ranking, as Cohere's clients expect it."""

    index: Count
    relevance_score: Annotated[float, means("As `relevance` asks for; between 0 and 1 unless it is `raw`.")]
    score: float
    pinned: Annotated[LeftOut[Literal[True]], means("Only of documents that the request pins.")] = None
    boost: Annotated[LeftOut[float], means("What the request adds to the score, which includes it.")] = None
    document: LeftOut[dict[str, Any]] = None


@dataclass(frozen=True, slots=True)
class CohereVersion:
    """Which version of Cohere's API this is."""

    version: Literal["2"]


@dataclass(frozen=True, slots=True)
class CohereUnits:
    """Nothing is billed."""


@dataclass(frozen=True, slots=True)
class CohereLocalRank:
    """What this service says besides Cohere's own members."""

    model: str
    version: Count
    relevance_score: Annotated[str, means("How it is computed from the score.")]
    route: RouteSchema
    timings_ms: Milliseconds
    degraded: LeftOut[DegradedSchema] = None
    tables: LeftOut[Generations] = None
    experiment: LeftOut[PartWithTeams] = None
    explanation: LeftOut[Explanation] = None


@dataclass(frozen=True, slots=True)
class CohereMeta:
    """About the answer."""

    api_version: CohereVersion
    billed_units: CohereUnits
    warnings: tuple[str, ...]
    localrank: CohereLocalRank


@dataclass(frozen=True, slots=True)
class CohereAnswer:
    """The ranking of one query, as Cohere's clients expect it."""

    id: str
    results: Annotated[tuple[CohereResult, ...], means("Ordered by score, then by position in the request.")]
    meta: CohereMeta


@dataclass(frozen=True, slots=True)
class Adapted:
    """What is added to the response of a search engine."""

    request_id: str
    model: str
    version: Count
    route: RouteSchema
    warnings: tuple[WarnedSchema, ...]
    timings_ms: Milliseconds
    degraded: LeftOut[DegradedSchema] = None
    tables: LeftOut[Generations] = None
    experiment: LeftOut[PartWithTeams] = None
    pinned: Annotated[
        LeftOut[tuple[Identifier, ...]], means("Ids of the documents that the request pins.")
    ] = None
    boosted: Annotated[
        LeftOut[dict[str, float]], means("What the request adds to scores, which include it, by id.")
    ] = None


@dataclass(frozen=True, slots=True)
class CompareSide:
    """The ranking of one of the two versions."""

    model: str
    version: Count
    results: tuple[ComparedResult, ...]
    route: RouteSchema
    warnings: tuple[WarnedSchema, ...]
    tables: LeftOut[Generations] = None


@dataclass(frozen=True, slots=True)
class ComparedResult:
    """One document of one of the two rankings."""

    rank: Rank
    index: Count
    score: float
    id: Identifier = None


@dataclass(frozen=True, slots=True)
class Move:
    """How far a document moves from the baseline to the candidate."""

    index: Annotated[Count, means("Position in the request.")]
    baseline: Annotated[Rank, means("Its rank there.")]
    candidate: Annotated[Rank, means("Its rank there.")]
    move: Annotated[int, means("By how many ranks the candidate moves it up; less than 0 is down.")]
    id: Identifier = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """How much two rankings agree."""

    kendall_tau: Annotated[
        float | None,
        means("Tau-b of the scores; null if one version gives all documents the same score."),
    ]
    rbo: Annotated[float, means("Rank-biased overlap, persistence 0.9.")]
    overlap: Annotated[
        dict[str, float],
        means("Share of the first documents that both rankings have in common, by the number of documents."),
    ]


@dataclass(frozen=True, slots=True)
class CompareAnswer:
    """Two versions' rankings of the same documents."""

    request_id: str
    baseline: CompareSide
    candidate: CompareSide
    moves: Annotated[
        tuple[Move, ...],
        means(
            "Every document; with `top_n`, every document that is among the first in at least one of the rankings."
        ),
    ]
    agreement: Agreement
    timings_ms: Milliseconds


# The Open Inference Protocol.


@dataclass(frozen=True, slots=True)
class InferParameters:
    """What the ranking is besides its outputs."""

    degraded: Annotated[
        LeftOut[str], means("Which cheaper ranking answered each query, separated by commas.")
    ] = None
    experiment: Annotated[LeftOut[str], means("The experiment that the request took part in.")] = None
    arm: Annotated[LeftOut[Side], means("Which arm of the experiment answered.")] = None
    tables: Annotated[
        LeftOut[str],
        means("The tables in which the documents were looked up, as `items@7`, separated by commas."),
    ] = None


@dataclass(frozen=True, slots=True)
class BinarySize:
    """How many bytes of a tensor follow the JSON."""

    binary_data_size: Count


@dataclass(frozen=True, slots=True)
class OutputTensor:
    """One output of a model."""

    name: Literal["scores", "ranking", "cluster", "doc_ids"]
    datatype: Literal["FP64", "INT32", "INT64", "BYTES"]
    shape: Annotated[tuple[Count, ...], Keywords(minItems=1, maxItems=1)]
    parameters: LeftOut[BinarySize] = None
    data: LeftOut[list[Any]] = None


@dataclass(frozen=True, slots=True)
class InferAnswer:
    """The rankings of one or more queries."""

    model_name: str
    model_version: str
    outputs: Annotated[
        tuple[OutputTensor, ...],
        means(
            "`scores` in the order of the request; `ranking`: the positions in the request, best first, query by "
            "query; only `ranking` decides the order; `cluster` of each query, where -1 is the global scorer; "
            "`doc_ids` in the order of `ranking`."
        ),
    ]
    id: LeftOut[str] = None
    parameters: LeftOut[InferParameters] = None


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """What this server is."""

    name: str
    version: str
    extensions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServerHealth:
    """Whether the server lives and is ready."""

    live: Literal[True]
    ready: bool


@dataclass(frozen=True, slots=True)
class TensorParameters:
    """Whether a tensor may be left out."""

    optional: Literal[True]


@dataclass(frozen=True, slots=True)
class TensorSchema:
    """One input or output of a model."""

    name: str
    datatype: str
    shape: tuple[Annotated[int, Keywords(minimum=-1)], ...]
    parameters: LeftOut[TensorParameters] = None


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """What a model takes and gives."""

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorSchema, ...]
    outputs: tuple[TensorSchema, ...]


@dataclass(frozen=True, slots=True)
class ModelReady:
    """That a model answers requests."""

    name: str
    ready: Literal[True]


@dataclass(frozen=True, slots=True)
class StatisticsPart:
    """One part of the time of a model's requests."""

    count: Count
    ns: Count


@dataclass(frozen=True, slots=True)
class VersionStatistics:
    """What one version has answered."""

    name: str
    version: str
    last_inference: Count
    inference_count: Count
    execution_count: Count
    inference_stats: dict[str, StatisticsPart]
    batch_stats: list[Any]


@dataclass(frozen=True, slots=True)
class ModelStatistics:
    """How many requests versions have answered, and the parts of their time."""

    model_stats: tuple[VersionStatistics, ...]


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One version in the repository."""

    name: str
    version: str
    state: Literal["READY", "UNAVAILABLE", "LOADING"]
    reason: str


#: Every version of every model, and whether it is served.
Index: TypeAlias = tuple[IndexEntry, ...]


@dataclass(frozen=True, slots=True)
class RepositoryAnswer:
    """A model that was loaded or unloaded."""

    name: str
    loaded: bool
    workers: tuple[Count, ...]


# Models.


@dataclass(frozen=True, slots=True)
class Summary:
    """What the list of models and the page of one model say alike."""

    name: str
    version: Count
    aliases: dict[str, Count]
    contract: str
    normalise: str
    n_features: Count
    n_clusters: Count
    representation: Annotated[
        dict[str, Any],
        Keywords(properties={"method": {"type": "string"}}, required=["method"]),
        means("How a query is represented when queries are compared: the method and its settings."),
    ]
    routing: str


@dataclass(frozen=True, slots=True)
class ModelSummary(Summary):
    """A model in the list."""

    default: bool


@dataclass(frozen=True, slots=True)
class Models:
    """The models that are served, that are still being loaded, and that are broken."""

    models: tuple[ModelSummary, ...]
    loading: dict[str, Count]
    broken: dict[str, str]


@dataclass(frozen=True, slots=True)
class Threshold:
    """Where a guard blends in the global scorer, and where it leaves the query to it."""

    blend: float | None
    global_: float | None


@dataclass(frozen=True, slots=True)
class FeatureSchema:
    """What a model expects of one feature."""

    name: str
    missing: str
    lowest: Annotated[float, means("Of a category, of the numbers that stand for its values.")]
    highest: float
    kind: LeftOut[Literal["category"]] = None
    values: Annotated[LeftOut[tuple[str, ...]], means("Of a category, each at the place of its code.")] = None
    scope: LeftOut[Literal["query"]] = None


@dataclass(frozen=True, slots=True)
class MapSummary:
    """How many queries a map has, and how much of their similarities it shows."""

    queries: Count
    shown: Share


@dataclass(frozen=True, slots=True)
class Model(Summary):
    """One model: where it comes from and what it expects."""

    features: tuple[FeatureSchema, ...]
    list_lengths: Annotated[dict[str, float], means("Documents of the training queries, by quantile.")]
    samples: Annotated[Rank, means("How many sample queries `/v1/models/{name}/sample` has.")]
    map: Annotated[MapSummary | None, means("What `/v1/models/{name}/map` shows; null if there is no map.")]
    created: LeftOut[str] = None
    sha256: LeftOut[str] = None
    metrics: LeftOut[dict[str, Any]] = None
    notes: LeftOut[list[Any]] = None
    source: LeftOut[dict[str, Any]] = None
    guard: Annotated[
        LeftOut[dict[str, Threshold]],
        means("Thresholds of `similarity`, `margin` and `distance`, if the model has a guard."),
    ] = None


@dataclass(frozen=True, slots=True)
class ClusterSchema:
    """A cluster of queries, and what training knows of it."""

    cluster: Count
    scorer: str
    size: LeftOut[Count] = None
    exemplar: str | None = None
    validation: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class GlobalScorer:
    """The scorer of queries without a cluster."""

    scorer: str


@dataclass(frozen=True, slots=True)
class Clusters:
    """A model's clusters of queries."""

    model: str
    version: Count
    clusters: tuple[ClusterSchema, ...]
    global_: GlobalScorer


@dataclass(frozen=True, slots=True)
class QueryMapSchema:
    """A model's training queries in two dimensions."""

    model: str
    version: Count
    similarity: str
    shown: Annotated[Share, means("How much of the similarities the two dimensions show, from 0 to 1.")]
    places: Annotated[bool, means("Whether `explain=route` answers the place of a query.")]
    queries: Annotated[tuple[Count, ...], means("The same numbers as in `neighbours` of an explanation.")]
    clusters: tuple[Count, ...]
    coordinates: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """Since when an alias named a version."""

    version: Count
    since: str


@dataclass(frozen=True, slots=True)
class Version:
    """One published version of a model."""

    version: Count
    live: Annotated[bool, means("Whether this service answers with it.")]
    broken: Annotated[LeftOut[str], means("Why the version cannot be read.")] = None
    created: LeftOut[str] = None
    sha256: LeftOut[str] = None
    contract: LeftOut[str] = None
    n_features: LeftOut[Count] = None
    n_clusters: LeftOut[Count] = None
    representation: LeftOut[str] = None
    routing: LeftOut[str] = None
    scorers: LeftOut[tuple[str, ...]] = None
    bytes: LeftOut[Count] = None
    metrics: LeftOut[dict[str, Any]] = None


@dataclass(frozen=True, slots=True)
class Versions:
    """The published versions of a model."""

    name: str
    aliases: dict[str, Count]
    history: Annotated[
        dict[str, tuple[Named, ...]], means("The versions that each alias named, oldest first.")
    ]
    versions: Annotated[tuple[Version, ...], means("The newest first.")]
    omitted: Annotated[Count, means("Number of older versions that no alias has named; they are left out.")]


@dataclass(frozen=True, slots=True)
class Changed:
    """Something that two versions have in different ways."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Probed:
    """Both versions' rankings of one query of a probe."""

    probe: Literal["before", "after"]
    query: Count
    documents: Count
    clusters: Annotated[tuple[Count | None, ...], Keywords(minItems=2, maxItems=2)]
    tau: Annotated[float, Keywords(minimum=-1, maximum=1)]
    same_first: bool
    furthest: Count


@dataclass(frozen=True, slots=True)
class DifferenceSchema:
    """What differs between two versions of a model."""

    name: str
    before: Count
    after: Count
    settings: tuple[Changed, ...]
    metrics: tuple[Changed, ...]
    contract: tuple[Changed, ...]
    probe: Annotated[
        tuple[Probed, ...] | None,
        means(
            "Both versions' rankings of both probes; null if the features, or their rules for missing values, are not "
            "the same."
        ),
    ]


@dataclass(frozen=True, slots=True)
class SwitchedSchema:
    """An alias that was moved."""

    name: str
    alias: str
    version: Count
    previous: Count | None
    workers: Annotated[tuple[Count, ...], means("Process ids of the workers; all of them have switched.")]


# Judged queries, feedback and experiments.


@dataclass(frozen=True, slots=True)
class MeasuredSchema:
    """One metric over all queries."""

    metric: str
    mean: float | None
    convention: str
    queries: Count
    empty_queries: Count
    empty_queries_are: str
    ties: str


@dataclass(frozen=True, slots=True)
class Latency:
    """How the times of single queries spread."""

    mean: float
    p50: float
    p90: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True)
class MeasuredQuery:
    """The figures of one query."""

    query_id: Identifier
    metrics: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class EvaluationTimings:
    """The parts of the time of an evaluation."""

    read: float
    rank: float
    measure: float


@dataclass(frozen=True, slots=True)
class EvaluateAnswer:
    """How well a model ranks judged queries, and how fast."""

    request_id: str
    model: str
    version: Count
    alias: Annotated[str | None, means("The alias in the request; null if the request named a version.")]
    queries: Count
    documents: Count
    metrics: tuple[MeasuredSchema, ...]
    latency_ms: Annotated[
        Latency | None,
        means("Milliseconds to rank one query, without reading the request and writing the answer."),
    ]
    stages_ms: Annotated[Milliseconds, means("Mean of each stage.")]
    routes: Annotated[dict[str, Count], means("Queries by cluster, or `global`.")]
    timings_ms: EvaluationTimings
    per_query: LeftOut[tuple[MeasuredQuery, ...]] = None


@dataclass(frozen=True, slots=True)
class FeedbackAnswer:
    """What became of events."""

    request_id: str
    accepted: Annotated[Count, means("Events that will be logged.")]
    dropped: Annotated[
        Count,
        means("Events that the queue or the caller's quota had no room for; send them again."),
    ]


@dataclass(frozen=True, slots=True)
class ExperimentWorker:
    """Which experiments one worker runs."""

    pid: Count
    generation: str


@dataclass(frozen=True, slots=True)
class Returned:
    """When and why a canary was taken back."""

    experiment: str
    at: str
    reason: str
    evidence: str


@dataclass(frozen=True, slots=True)
class ComparedVersions:
    """The versions of an experiment, as ``name@version``."""

    baseline: str | None
    candidate: str | None


@dataclass(frozen=True, slots=True)
class RankTimes:
    """Quantiles of the time of ranking."""

    p50: float | None
    p95: float | None


@dataclass(frozen=True, slots=True)
class ArmCounts:
    """What one arm has counted."""

    requests: Annotated[dict[str, Count], means("By outcome.")]
    rank_ms: RankTimes


@dataclass(frozen=True, slots=True)
class ShadowCounts:
    """What a shadow has counted."""

    ranked: Count
    dropped: Count
    failed: Count
    kendall_tau: float | None
    rbo: float | None
    overlap_at_10: float | None


@dataclass(frozen=True, slots=True)
class GuardrailsSchema:
    """When a canary is taken back; the request of ``PUT /v1/experiments/{name}`` says what each means."""

    minimum_requests: int
    alpha: float
    errors: float
    degraded: float
    latency: float
    quantile: float


State: TypeAlias = Literal["running", "returned", "waiting", "over"]


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment: its settings, which the request of ``PUT /v1/experiments/{name}`` explains, and its counts."""

    name: str
    kind: Literal["canary", "split", "shadow", "interleaving"]
    model: str
    candidate: str
    percent: float
    unit: Literal["session_id", "query_id", "request"]
    salt: str
    run: Annotated[
        str,
        means("Identifies the experiment and its settings: after a change of a setting it is another value."),
    ]
    state: State
    reason: Annotated[str | None, means("Why it does not run.")]
    returned: Annotated[Returned | None, means("When and why the canary was taken back.")]
    versions: ComparedVersions
    arms: dict[str, ArmCounts]
    outside: Annotated[
        Count,
        means(
            "Requests that took no part, because they lack the unit or their answer has no place for teams."
        ),
    ]
    guardrails: LeftOut[GuardrailsSchema] = None
    method: LeftOut[Literal["team_draft", "balanced"]] = None
    depth: LeftOut[Count] = None
    shadow: Annotated[
        LeftOut[ShadowCounts],
        means(
            "For a shadow: how many of its requests were ranked, dropped or failed, and how much its rankings agree with "
            "the answers on average."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class ExperimentsSchema:
    """Every experiment, and which worker runs which."""

    generation: Annotated[str, means("Workers with the same value run the same experiments.")]
    workers: tuple[ExperimentWorker, ...]
    problem: Annotated[str | None, means("Why the file cannot be used; null if it can.")]
    experiments: tuple[Experiment, ...]


@dataclass(frozen=True, slots=True)
class ExperimentChanged:
    """An experiment that was added, changed or ended."""

    name: str
    run: str | None
    workers: Annotated[tuple[Count, ...], means("Process ids of the workers; all of them use the change.")]


# Health.


@dataclass(frozen=True, slots=True)
class Live:
    """That the process answers."""

    live: Literal[True]


@dataclass(frozen=True, slots=True)
class Started:
    """That every model was tried."""

    started: Literal[True]


@dataclass(frozen=True, slots=True)
class Copying:
    """Whether the last look at the URL of the models failed, and why."""

    error: str | None


@dataclass(frozen=True, slots=True)
class LookedUp:
    """A table that a model looks into."""

    generation: Count
    created: Annotated[str, means("When it was published.")]
    age_seconds: Annotated[float | None, means("Since then; null if that is no time.")]
    refused: Annotated[LeftOut[str], means("Why it does not look into the newest generation.")] = None


@dataclass(frozen=True, slots=True)
class Ready:
    """That requests should be sent here."""

    ready: Literal[True]
    models: dict[str, Count]
    broken: dict[str, str]
    unready_workers: dict[str, str]
    remote: LeftOut[Copying] = None
    tables: Annotated[
        LeftOut[dict[str, dict[str, LookedUp]]],
        means("By version of a model: the tables that it looks into, by name."),
    ] = None


@dataclass(frozen=True, slots=True)
class StatsRequests:
    """Requests by outcome."""

    ok: Count
    invalid: Count
    error: Count


@dataclass(frozen=True, slots=True)
class StatsQuantiles:
    """Quantiles of a time, in milliseconds."""

    p50: float
    p90: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class StatsFigures:
    """Requests of a stretch of time, and how long they took."""

    requests: StatsRequests
    per_second: float
    milliseconds: Annotated[
        dict[str, StatsQuantiles],
        means("Quantiles of each stage and of their `total`, accurate to 10 %."),
    ]


@dataclass(frozen=True, slots=True)
class StatsWindow(StatsFigures):
    """The last minutes."""

    seconds: Annotated[float, means("Real length of the window in seconds.")]
    models: dict[str, StatsFigures]


@dataclass(frozen=True, slots=True)
class StatsCourse:
    """Requests and their times, slice by slice."""

    ok: tuple[Count, ...]
    invalid: tuple[Count, ...]
    error: tuple[Count, ...]
    p50: tuple[float | None, ...]
    p99: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class StatsSeries(StatsCourse):
    """The slices of all requests and of each model."""

    seconds: Annotated[Count, means("Length of each slice.")]
    latest_seconds: Annotated[float, means("Length of the last slice so far.")]
    models: dict[str, StatsCourse]


@dataclass(frozen=True, slots=True)
class StatsOutcomes:
    """Requests by outcome."""

    ok: Count
    degraded: Count
    invalid: Count
    error: Count


@dataclass(frozen=True, slots=True)
class StatsCluster:
    """The requests of one cluster."""

    cluster: Annotated[
        int | str | None,
        means("null is the global scorer; `other` is all clusters without a series of their own."),
    ]
    requests: Count
    training_share: Annotated[float | None, means("Share of the training queries.")]


@dataclass(frozen=True, slots=True)
class StatsVersion:
    """Counts of one version."""

    requests: StatsOutcomes
    clusters: tuple[StatsCluster, ...]
    fallbacks: Annotated[dict[str, Count], means("Requests by `route.fallback`.")]
    drift: Annotated[
        float | None,
        means(
            "How far the clusters' shares of the requests differ from their shares of the training queries, from 0 to 1; "
            "null if there are too few requests to tell, or neither clusters nor kinds."
        ),
    ]
    drift_missing: Annotated[
        Count | None,
        means(
            "Requests that are missing to tell the drift, only those that are signed if there are no clusters; null without "
            "clusters and kinds."
        ),
    ]
    kinds: Annotated[
        LeftOut[tuple[StatsCluster, ...]],
        means(
            "Of a version without clusters: the kinds of training queries on its map, and the requests like each, of those that "
            "were signed."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class StatsDegraded:
    """Requests that a cheaper ranking answered."""

    rung: str
    reason: str
    requests: Count


@dataclass(frozen=True, slots=True)
class StatsModel:
    """Counts of one model since the start."""

    versions: dict[str, StatsVersion]
    degraded: tuple[StatsDegraded, ...]
    imputed: Annotated[Count, means("Missing values that were replaced.")]
    out_of_range: Annotated[Count, means("Values out of the training range.")]


@dataclass(frozen=True, slots=True)
class StatsExperiment:
    """An experiment in short."""

    name: str
    kind: str
    state: State


@dataclass(frozen=True, slots=True)
class StatsImpressions:
    """The impression log, and its queries since the start."""

    share: Annotated[float, means("Share of the rankings that are logged.")]
    logged: Count
    dropped: Count
    over_quota: Count
    lost: Count
    feedback: Annotated[dict[str, Count], means("Events since the start, by outcome.")]
    bytes: Annotated[Count, means("Bytes of all files of the log.")]
    most_bytes: Count


@dataclass(frozen=True, slots=True)
class Stats:
    """What the service counted and timed, over all workers."""

    workers: Count
    uptime_seconds: float
    in_flight: Count
    connections: Count
    refused: Annotated[dict[str, Count], means("Requests and connections since the start, by reason.")]
    deaths: Annotated[dict[str, Count], means("Workers since the start, by cause.")]
    windows: Annotated[dict[Literal["1m", "5m", "15m"], StatsWindow], Keywords(required=["1m", "5m", "15m"])]
    experiments: Annotated[
        tuple[StatsExperiment, ...] | None, means("A summary; null if experiments are off.")
    ]
    impressions: Annotated[
        StatsImpressions | None,
        means("The impression log, and its queries since the start; null if it is off."),
    ]
    models: Annotated[dict[str, StatsModel], means("Counts of each model since the start.")]
    series: Annotated[
        LeftOut[StatsSeries],
        means(
            "Only with `series=true`: requests and quantiles of their time in milliseconds, for each slice, oldest first."
        ),
    ] = None
