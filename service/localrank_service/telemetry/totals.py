"""The counts of each model since the start of the service, over all workers: the figures of ``/metrics``, by model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from localrank_service.telemetry.drift import needed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import Metric

#: Metrics that the totals are made of.
SHOWN: Final = (
    "localrank_requests_total",
    "localrank_routes_total",
    "localrank_training_share",
    "localrank_signed_total",
    "localrank_map_share",
    "localrank_route_drift",
    "localrank_degraded_total",
    "localrank_feature_imputed_total",
    "localrank_feature_out_of_range_total",
)
OUTCOMES: Final = ("ok", "degraded", "invalid", "error")


def totals(families: Iterable[Metric]) -> dict[str, Any]:
    """Return what there is to show of each model."""
    found: dict[str, dict[str, Any]] = {}
    for family in families:
        for sample in family.samples:
            labels = dict(sample.labels)
            if not (name := labels.pop("model", "")):
                # Requests that named no model.
                continue
            model = found.setdefault(name, {"versions": {}, "degraded": [], "imputed": 0, "out_of_range": 0})
            _add(model, sample.name, labels, sample.value)
    for model in found.values():
        for version in model["versions"].values():
            for by in ("clusters", "kinds"):
                version[by] = sorted(version[by].values(), key=_place)
            compared = version["kinds"] or version["clusters"]
            trained = sum(cluster["training_share"] is not None for cluster in compared)
            requests = sum(cluster["requests"] for cluster in compared)
            version["drift_missing"] = max(0, needed(trained) - requests) if trained else None
            if not version["kinds"]:
                del version["kinds"]
    return found


def _add(model: dict[str, Any], metric: str, labels: dict[str, str], value: float) -> None:
    match metric:
        case "localrank_degraded_total":
            model["degraded"].append({**labels, "requests": int(value)})
        case "localrank_feature_imputed_total":
            model["imputed"] += int(value)
        case "localrank_feature_out_of_range_total":
            model["out_of_range"] += int(value)
        case "localrank_requests_total":
            requests = _version(model, labels)["requests"]
            requests[labels["outcome"]] = requests.get(labels["outcome"], 0) + int(value)
        case "localrank_route_drift":
            _version(model, labels)["drift"] = value
        case "localrank_training_share":
            _cluster(_version(model, labels)["clusters"], labels)["training_share"] = value
        case "localrank_map_share":
            _cluster(_version(model, labels)["kinds"], labels)["training_share"] = value
        case "localrank_signed_total":
            _cluster(_version(model, labels)["kinds"], labels)["requests"] += int(value)
        case "localrank_routes_total":
            version = _version(model, labels)
            _cluster(version["clusters"], labels)["requests"] += int(value)
            if reason := labels["fallback"]:
                fallbacks = version["fallbacks"]
                fallbacks[reason] = fallbacks.get(reason, 0) + int(value)


def _version(model: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    version: dict[str, Any] = model["versions"].setdefault(
        labels["version"],
        {
            "requests": dict.fromkeys(OUTCOMES, 0),
            "clusters": {},
            "kinds": {},
            "fallbacks": {},
            "drift": None,
        },
    )
    return version


def _cluster(clusters: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    label = labels["cluster"]
    number = int(label) if label.isdecimal() else None if label == "global" else label
    cluster: dict[str, Any] = clusters.setdefault(
        label, {"cluster": number, "requests": 0, "training_share": None}
    )
    return cluster


def _place(cluster: dict[str, Any]) -> tuple[bool, bool, int]:
    """Order clusters by number, then the others, then the global scorer."""
    number = cluster["cluster"]
    return number is None, isinstance(number, str), number if isinstance(number, int) else 0
