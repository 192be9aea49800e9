"""`/v1/experiments`: experiments that run, and how to change them."""

from __future__ import annotations

from typing import Any

from localrank_service.describe.openapi.operation import Operation
from localrank_service.describe.openapi.problems import BODY, KEY
from localrank_service.describe.openapi.shapes import (
    COUNT,
    NUMBER,
    TEXT,
    closed,
    described_by,
    list_of,
    map_of,
    maybe,
    ref,
)
from localrank_service.experiments.definition import GUARDRAILS, MEMBERS
from localrank_service.wire.members import names_of

SCHEMAS: dict[str, Any] = {
    "Experiments": closed(
        {
            "generation": TEXT | {"description": "Workers with the same value run the same experiments."},
            "workers": list_of(closed({"pid": COUNT, "generation": TEXT})),
            "problem": maybe(TEXT) | {"description": "Why the file cannot be used; null if it can."},
            "experiments": list_of(ref("Experiment")),
        }
    ),
    "ExperimentSettings": closed(
        described_by(MEMBERS)
        | {"guardrails": closed(described_by(GUARDRAILS), optional=names_of(GUARDRAILS))},
        optional=tuple(name for name in names_of(MEMBERS) if name not in {"kind", "model", "candidate"}),
        examples=[{"kind": "canary", "model": "demo", "candidate": "demo@2", "percent": 5}],
    ),
    "Experiment": closed(
        described_by(MEMBERS)
        | {
            "guardrails": closed(described_by(GUARDRAILS)),
            "run": TEXT
            | {
                "description": "Identifies the experiment and its settings: after a change of a setting it is another "
                "value."
            },
            "state": {"enum": ["running", "returned", "waiting", "over"]},
            "reason": maybe(TEXT) | {"description": "Why it does not run."},
            "returned": maybe(closed({"experiment": TEXT, "at": TEXT, "reason": TEXT, "evidence": TEXT}))
            | {"description": "When and why the canary was taken back."},
            "versions": closed({"baseline": maybe(TEXT), "candidate": maybe(TEXT)}),
            "arms": map_of(
                closed(
                    {
                        "requests": map_of(COUNT) | {"description": "By outcome."},
                        "rank_ms": closed({"p50": maybe(NUMBER), "p95": maybe(NUMBER)}),
                    }
                )
            ),
            "outside": COUNT
            | {
                "description": "Requests that took no part, because they lack the unit or their answer has no place for "
                "teams."
            },
            "shadow": closed(
                {
                    **dict.fromkeys(("ranked", "dropped", "failed"), COUNT),
                    **dict.fromkeys(("kendall_tau", "rbo", "overlap_at_10"), maybe(NUMBER)),
                }
            )
            | {
                "description": "For a shadow: how many of its requests were ranked, dropped or failed, and how much its "
                "rankings agree with the answers on average."
            },
        },
        optional=("guardrails", "method", "depth", "shadow"),
    ),
    "ExperimentChanged": closed(
        {
            "name": TEXT,
            "run": maybe(TEXT),
            "workers": list_of(COUNT)
            | {"description": "Process ids of the workers; all of them use the change."},
        }
    ),
}

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("get", "/v1/experiments"): Operation(None, "Experiments", {*KEY, 409}),
    ("put", "/v1/experiments/{name}"): Operation(
        "ExperimentSettings", "ExperimentChanged", {*KEY, *BODY, 404, 409, 503}, admin=True
    ),
    ("delete", "/v1/experiments/{name}"): Operation(
        None, "ExperimentChanged", {*KEY, 404, 409, 503}, admin=True
    ),
}
