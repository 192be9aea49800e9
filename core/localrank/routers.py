"""Every router by its name in configuration, artifacts and routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localrank.classifying import ClassifierRouter, FusionRouter
from localrank.overlap import OverlapRouter
from localrank.routing import CentroidRouter, ExactRouter, GlobalRouter, LshRouter, MedoidRouter

if TYPE_CHECKING:
    from localrank.routing import Router

#: Every router that an artifact may hold. A new one is its class and an entry here.
ROUTERS: dict[str, type[Router]] = {
    router.strategy: router
    for router in (
        GlobalRouter,
        ExactRouter,
        MedoidRouter,
        CentroidRouter,
        LshRouter,
        OverlapRouter,
        ClassifierRouter,
        FusionRouter,
    )
}
