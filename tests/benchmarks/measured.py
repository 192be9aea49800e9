"""What benchmarks could have measured, one of everything that tables and plots tell apart."""

from __future__ import annotations

from typing import Any


def _cpu(server: str, wire: str, documents: int, ms: float) -> dict[str, Any]:
    named = {"server": server, "wire": wire, "documents": documents, "features": 136}
    return {**named, "cpu_ms": ms, "cpu_ms_interval": [0.8 * ms, 1.2 * ms], "closed_ms": 2 * ms}


def _late(server: str, wire: str, rate: float, p50: float | None, answered: float) -> dict[str, Any]:
    p99 = None if p50 is None else 3 * p50
    return {
        "server": server,
        "wire": wire,
        "documents": 100,
        "features": 136,
        "rate": rate,
        "p50_ms": p50,
        "p50_ms_interval": [p50 and p50 - 1, p50 and p50 + 1],
        "p99_ms": p99,
        "p99_ms_interval": [p99 and p99 - 1, p99 and p99 + 1],
        "answered": answered,
    }


_PEERS = {
    "cpu": [
        *(_cpu("localrank", "npy", documents, documents / 400) for documents in (100, 400)),
        *(_cpu("localrank", "JSON", documents, documents / 200) for documents in (100, 400)),
        *(_cpu("fastapi", "JSON", documents, documents / 50) for documents in (100, 400)),
    ],
    "latency": [
        *(_late("localrank", "npy", rate, 1.5, 100.0) for rate in (50.0, 200.0)),
        _late("fastapi", "JSON", 50.0, 3.0, 100.0),
        _late("fastapi", "JSON", 200.0, 800.0, 40.0),
        _late("localrank", "JSON", 50.0, None, 0.0),
    ],
    "left_out": [{"what": "ray", "why": "ended"}],
}
_STAGES = ("npy", "json", "cloud", "sign", "score", "order", "encode")
_LATE = {"p50_ms": 1.0, "p90_ms": 2.0, "p99_ms": 3.0}

MEASURED: dict[str, dict[str, list[dict[str, Any]]]] = {
    "peers": _PEERS,
    "peers_trees": _PEERS,
    "floor": {
        "floor": [
            {
                "wire": "npy",
                "documents": 100,
                "features": 136,
                "request_ms": 0.5,
                "empty_ms": 0.1,
                "bare_ms": 0.25,
                "looped_ms": 0.2,
                "times": 1.6,
                "interval": [1.5, 1.75],
            }
        ]
    },
    "stages": {
        "stages": [
            {
                "stage": stage,
                "documents": documents,
                "features": 136,
                "us": 20.0 * place,
                "bare_us": 10.0 * place,
            }
            for documents in (1, 100, 1000)
            for place, stage in enumerate(_STAGES, 1)
        ],
        "blocks": [
            {"block": block, "documents": 100, "features": 136, "us": 5.0, "bare_us": 10.0}
            for block in ("minmax", "to_best")
        ],
        "routes": [
            {"queries": 1000, "features": 136, "us": 30.0, "bare_us": 20.0},
            {"queries": 1_000_000, "features": 700, "us": None, "bare_us": None},
        ],
    },
    "growth": {
        "growth": [
            {"kind": kind, "queries": queries, "features": 46, **_LATE, "cpu_ms": 0.5, "times": 1.25}
            for kind in ("spread", "tight")
            for queries in (1000, 1_000_000)
        ]
    },
    "load": {
        "load": [
            {
                "server": server,
                "workers": workers,
                "share": 0.1,
                "rate": rate,
                "achieved": rate,
                **_LATE,
                "p999_ms": 4.0,
                "cpu_ms": 0.5,
                "client_percent": 9.0,
                "p50_ms_each": [1.0],
            }
            for server in ("localrank", "idle")
            for workers in (1, 2)
            for rate in (100.0, 1000.0)
        ]
    },
    "locust_run": {
        "locust": [
            {
                "users": 25,
                "requests": 500,
                "failures": 0,
                "requests_per_s": 25.0,
                "total_ms": 0.8,
                "p50_ms": 1.0,
                "p95_ms": 2.0,
                "p99_ms": 3.0,
            }
        ]
    },
    "mixed": {
        "mixed": [
            {
                "documents": 5000,
                "features": 136,
                "rate": rate,
                "large_p50_ms": 9.0 if rate else None,
                "health_p50_ms": 1.0,
                "health_p99_ms": 2.0,
                "small_p50_ms": 3.0,
                "small_p99_ms": 4.0,
            }
            for rate in (0.0, 50.0)
        ]
    },
    "second_worker": {
        "workers": [
            {
                "queries": 100_000,
                "features": 136,
                "private_mb": 60.0,
                "proportional_mb": 70.0,
                "resident_mb": 100.0,
            }
        ]
    },
}
