"""What is served, how to ask it, and moving aliases: ``/v1/models`` and below."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter, Depends, Request, Response

from localrank.features.contract import QUANTILES
from localrank.registry.versions import ALIAS_NAME, CHAMPION
from localrank.routing.guard import GuardedRanker
from localrank_service.apis.models import promoting
from localrank_service.apis.models.schema import count_samples, request_schema, sample
from localrank_service.apis.models.versions import difference, versions
from localrank_service.apis.openapi import (
    BODY,
    COUNT,
    FREE,
    KEY,
    MODEL,
    TEXT,
    Schema,
    in_query,
    operation,
    request_of,
)
from localrank_service.apis.requests import answer, check_admin, check_options, members_of
from localrank_service.http.problems import Problem
from localrank_service.ranking.explaining import map_of, summary
from localrank_service.wire.members import Member, by_name, check, check_names, integer, matching

if TYPE_CHECKING:
    from localrank_service.models.live import LiveModel
    from localrank_service.ranking.service import Service

_ALIAS = Member(
    "alias",
    matching(ALIAS_NAME.pattern, "1 to 64 letters, digits, '.', '_' and '-', the first a letter"),
    f"The alias that moves; `{CHAMPION}` if left out.",
    nullable=False,
)

#: Of ``POST /v1/models/NAME/promote`` and ``…/rollback``; any other is refused by name.
PROMOTE = (Member("version", integer(1), "The version that the alias will name.", nullable=False), _ALIAS)

ROLLBACK = (_ALIAS,)

router = APIRouter(tags=["models"], dependencies=[Depends(check_options)])


@router.get("/v1/models")
@operation("Models", KEY)
async def list_models(request: Request) -> Response:
    """Every model that is served, the models that are still being loaded, and the broken ones."""
    service: Service = request.app.state.service
    live = service.live
    default = live.find(None)
    return answer(
        {
            "models": [
                _summary(service, model) | {"default": model is default} for model in live.champions.values()
            ],
            "loading": dict(live.loading),
            "broken": dict(live.broken),
        }
    )


@router.get("/v1/models/{name}")
@operation("Model", {*KEY, *MODEL})
async def show_model(request: Request, name: str) -> Response:
    """One model (``name``, ``name@version`` or ``name@alias``): where it comes from and what it expects."""
    service: Service = request.app.state.service
    model = await service.resolve(name, request.scope, at=None)
    members = _summary(service, model)
    if (manifest := model.manifest) is not None:
        members |= {
            "created": manifest.created,
            "sha256": manifest.sha256,
            "metrics": manifest.metrics,
            "notes": manifest.notes,
            "source": manifest.source,
        }
    if isinstance(model.ranker, GuardedRanker):
        members["guard"] = model.ranker.guard.to_json()
    members["features"] = _features(model)
    members["list_lengths"] = _list_lengths(model)
    members["samples"] = count_samples(model)
    members["map"] = summary(model)
    return answer(members)


@router.get("/v1/models/{name}/schema")
@operation(Schema("JsonSchema", FREE), {*KEY, *MODEL}, media="application/schema+json")
async def show_schema(request: Request, name: str) -> Response:
    """The JSON Schema of a request for this model, with an example."""
    service: Service = request.app.state.service
    schema = request_schema(await service.resolve(name, request.scope, at=None), service.limits)
    return Response(orjson.dumps(schema), media_type="application/schema+json")


@router.get("/v1/models/{name}/sample")
@operation(
    {"$ref": "#/components/schemas/RerankRequest"},
    {*KEY, *MODEL, 422},
    parameters=(in_query("query", "Which of the model's `samples`; the first if left out.", COUNT),),
)
async def show_sample(request: Request, name: str) -> Response:
    """A request to try this model with: a query of its probe, by its number in ``query``."""
    service: Service = request.app.state.service
    model = await service.resolve(name, request.scope, at=None)
    asked, samples = request.query_params.get("query", "0"), count_samples(model)
    if not (asked.isascii() and asked.isdecimal() and len(asked) < 6 and int(asked) < samples):
        raise Problem(422, f"query: expected a number below {samples}, found {asked[:40]!r}")
    return answer(sample(model, int(asked)))


@router.get("/v1/models/{name}/map")
@operation("QueryMap", {*KEY, *MODEL})
async def show_map(request: Request, name: str) -> Response:
    """The training queries of the model in two dimensions; similar queries are near each other."""
    service: Service = request.app.state.service
    return answer(map_of(await service.resolve(name, request.scope, at=None)))


@router.get("/v1/models/{name}/versions")
@operation("Versions", {*KEY, *MODEL})
async def list_versions(request: Request, name: str) -> Response:
    """Every published version of a model: aliases, origin, held-out figures, and whether it answers."""
    service: Service = request.app.state.service
    return answer(await versions(service, name))


@router.get("/v1/models/{name}/diff")
@operation(
    "Difference",
    {*KEY, *MODEL, 409, 422},
    parameters=tuple(
        in_query(side, "A version number, or an alias.", TEXT, required=True) for side in ("before", "after")
    ),
)
async def diff_versions(request: Request, name: str) -> Response:
    """The differences between two versions: settings, metrics, contract, and the rankings of their probes."""
    service: Service = request.app.state.service
    asked = request.query_params
    return answer(
        await difference(service, request.scope, name, asked.get("before", ""), asked.get("after", ""))
    )


@router.get("/v1/models/{name}/clusters")
@operation("Clusters", {*KEY, *MODEL})
async def show_clusters(request: Request, name: str) -> Response:
    """The model's clusters of queries."""
    service: Service = request.app.state.service
    model = await service.resolve(name, request.scope, at=None)
    ranker, manifest = model.ranker, model.manifest
    known = [asdict(cluster) for cluster in manifest.clusters] if manifest is not None else []
    return answer(
        {
            "model": model.name,
            "version": model.version,
            "clusters": [
                {"cluster": number, "scorer": scorer.kind, **(known[number] if known else {})}
                for number, scorer in enumerate(ranker.scorers)
            ],
            "global": {"scorer": ranker.global_scorer.kind},
        }
    )


@router.post("/v1/models/{name}/promote")
@operation(
    "Switched",
    {*KEY, *BODY, *MODEL, 409},
    reads=request_of("Promotion", PROMOTE, required=("version",)),
    admin=True,
)
async def promote(request: Request, name: str) -> Response:
    """Point an alias at a version, in every worker; needs an admin key."""
    members = await _change(request, PROMOTE)
    if "version" not in members:
        raise Problem(422, "expected the version to promote", pointer="")
    service: Service = request.app.state.service
    switched = await promoting.promote(service, name, members["version"], members.get("alias", CHAMPION))
    return answer(asdict(switched))


@router.post("/v1/models/{name}/rollback")
@operation(
    "Switched", {*KEY, *BODY, *MODEL, 409}, reads=request_of("Rollback", ROLLBACK, required=()), admin=True
)
async def rollback(request: Request, name: str) -> Response:
    """Point an alias at its previous version, in every worker; needs an admin key."""
    members = await _change(request, ROLLBACK)
    service: Service = request.app.state.service
    return answer(asdict(await promoting.rollback(service, name, members.get("alias", CHAMPION))))


async def _change(request: Request, expected: tuple[Member, ...]) -> dict[str, Any]:
    """Check everything about a request that changes something, and return its members."""
    check_admin(request)
    members = await members_of(request)
    table = by_name(expected)
    check_names(members, table)
    check(members, table)
    return members


def _summary(service: Service, model: LiveModel) -> dict[str, Any]:
    ranker = model.ranker
    aliases = {
        address.partition("@")[2] or CHAMPION: other.version
        for address, other in service.live.of(model.name).items()
        if not address.partition("@")[2].isdecimal()
    }
    return {
        "name": model.name,
        "version": model.version,
        "aliases": aliases,
        "contract": ranker.contract.digest,
        "normalise": ranker.contract.normalise,
        "n_features": ranker.contract.n_features,
        "n_clusters": len(ranker.scorers),
        "representation": {"method": ranker.representation.method, **ranker.representation.settings()},
        "routing": ranker.router.strategy,
    }


def _features(model: LiveModel) -> list[dict[str, Any]]:
    contract = model.ranker.contract
    lowest, *_, highest = contract.quantiles.tolist()
    return [
        {
            "name": one.name,
            "missing": one.missing,
            "lowest": lowest[at],
            "highest": highest[at],
            **({"kind": "category", "values": one.values} if one.kind == "category" else {}),
            **({"scope": "query"} if one.scope == "query" else {}),
        }
        for at, one in enumerate(contract.features)
    ]


def _list_lengths(model: LiveModel) -> dict[str, float]:
    """How many documents the training queries had, by quantile; `/metrics` has what is served."""
    return {str(q): length for q, length in zip(QUANTILES, model.ranker.contract.list_lengths, strict=True)}
