"""The ASGI application.

``create_app`` makes one from settings; ``localrank_service.app:app`` is one from the environment, made when first
asked for, so that importing this module reads nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from localrank import __version__
from localrank.journal import FEEDBACK
from localrank_service.apis import ROUTERS, openapi
from localrank_service.http import problems
from localrank_service.http.admission import Admission, Connections, LoadLimits
from localrank_service.http.cors import Cors, parse_origins
from localrank_service.http.edge import DirectRoute, Edge
from localrank_service.http.keyring import Keyring, generate
from localrank_service.http.keys import Keys
from localrank_service.http.origin import Hosts
from localrank_service.models.copies import Copies, TableCopies
from localrank_service.models.extra import ExtraVersions
from localrank_service.models.live import LiveModels, addresses_of
from localrank_service.models.loading import Loader, hiding
from localrank_service.models.remote import Remote
from localrank_service.models.tables import Tables
from localrank_service.models.workers import Workers
from localrank_service.online.experiments import Experiments
from localrank_service.online.files import Files
from localrank_service.online.impressions import ImpressionLog
from localrank_service.online.store import ExperimentStore
from localrank_service.process import cpus, runtime_folder
from localrank_service.process.draining import drain_on_sigterm
from localrank_service.process.settings import Settings
from localrank_service.ranking.reranking import rank_plainly, under_pressure
from localrank_service.ranking.service import Service
from localrank_service.telemetry.access import AccessLog
from localrank_service.telemetry.meters import Meters
from localrank_service.telemetry.observing import Observer
from localrank_service.telemetry.spans import Spans
from localrank_service.wire.query import Limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from localrank_service.models.live import LiveModel

#: Seconds that connections wait for the first worker after all have died.
_PATIENCE = 5.0

_log = logging.getLogger("localrank.service")


def create_app(settings: Settings | None = None, *, models: Iterable[LiveModel] | None = None) -> FastAPI:
    """Make an application that serves ``settings.models_dir``, or exactly the models given."""
    settings = settings or Settings.from_environ(os.environ)
    hosts = Hosts(settings.allowed_hosts)
    place = None if settings.runtime_dir is None else runtime_folder.join(settings.runtime_dir, settings)
    live, workers = LiveModels(settings.model), Workers(settings.runtime_dir, place)
    meters = Meters(settings.runtime_dir / "metrics" if settings.runtime_dir else None)
    loader = None
    if models is None:
        copies = Copies(
            settings.runtime_dir / "versions" if settings.runtime_dir else None,
            trusted_keys=settings.require_signature,
        )
        table_copies = TableCopies(
            settings.runtime_dir / "tables" if settings.runtime_dir else None,
            trusted_keys=settings.require_signature,
        )
        hidden = [*hiding(settings.models_dir), *table_copies.hiding()]
        loader = Loader(
            settings.models_dir,
            live,
            meters,
            workers,
            copies=copies,
            tables=Tables(settings.models_dir, table_copies, meters, hidden),
            seconds=settings.load_timeout_seconds,
            extra=ExtraVersions(settings.extra_versions, settings.extra_versions_bytes),
            preload=settings.preloaded(),
            remote=_remote(settings, meters),
        )
    else:
        addresses = addresses_of(models)
        live.replace(addresses, {})
        for model in addresses.values():
            meters.trained(model)
    load_limits = LoadLimits.of(settings)
    admission = Admission(load_limits, meters)
    meters.sign_every.set(settings.sign_every)
    share = settings.overload_degrade
    service = Service(
        settings=settings,
        live=live,
        keys=_keys(settings, hosts, meters),
        hosts=hosts,
        cors=Cors(origins) if (origins := parse_origins(settings.cors_origins)) else None,
        meters=meters,
        observer=_observer(settings),
        limits=Limits(
            settings.max_documents,
            settings.extra_features == "refuse",
            max_numbers=max(settings.max_body_bytes // 4, 2**16),
        ),
        workers=workers,
        loader=loader,
        admission=admission,
        experiments=_experiments(
            settings, live=live, loader=loader, workers=workers, meters=meters, admission=admission
        ),
        rank=rank_plainly if not share else under_pressure(admission, share),
        connections=Connections(load_limits, meters),
        impressions=_impressions(settings, meters),
    )
    app = FastAPI(
        title="LocalRank",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # Its spans would hold query strings; `telemetry.spans` makes ours.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        lifespan=_lifespan,
    )
    app.state.service = service
    # Flat instead of included: an included router is matched anew below its own node for every request.
    routes = [route for router in ROUTERS for route in router.routes]
    direct = {
        (method, route.path): route
        for route in routes
        if isinstance(route, DirectRoute) and not route.param_convertors
        for method in route.methods or ()
    }
    app.add_middleware(
        Edge,
        keys=service.keys,
        meters=service.meters,
        observer=service.observer,
        cors=service.cors,
        direct=direct,
    )
    problems.install(app)
    app.router.routes.extend(routes)
    openapi.install(app)
    return app


def _keys(settings: Settings, hosts: Hosts, meters: Meters) -> Keys:
    """Return the keys of the settings; without an admin key one is generated, if there is a folder for it."""
    serving, admin = settings.keyrings()
    if not admin.configured and settings.runtime_dir is not None:
        try:
            admin = Keyring(admin.role, file=generate(settings.runtime_dir))
        except OSError as error:
            _log.error(
                "no admin key is set, and a generated one cannot be written to %s: %s; routes that change "
                "something are closed",
                settings.runtime_dir,
                error.strerror,
            )
    keys = Keys(serving, admin, hosts, meters.key_checks)
    keys.refresh()
    return keys


def _experiments(
    settings: Settings,
    *,
    live: LiveModels,
    loader: Loader | None,
    workers: Workers,
    meters: Meters,
    admission: Admission,
) -> Experiments | None:
    """Return the experiments of this worker if the settings name a file for them."""
    if settings.experiments_file is None:
        return None
    store = ExperimentStore(settings.experiments_file, settings.runtime_dir)
    return Experiments(store, live, loader, workers, meters, admission)


def _remote(settings: Settings, meters: Meters) -> Remote | None:
    """Return what keeps the folder of models like the one at a URL, if the settings name one."""
    if settings.models_url is None:
        return None
    return Remote(settings.models_url, settings.models_dir, settings.models_url_seconds, meters)


def _observer(settings: Settings) -> Observer:
    """Return the observer, which decides what is recorded for each request."""
    access = None
    if settings.access_log:
        access = AccessLog(settings.access_log, settings.access_log_features)
    return Observer(access, Spans() if settings.otel else None)


def _impressions(settings: Settings, meters: Meters) -> ImpressionLog | None:
    """Return the impression log if the settings ask for it."""
    if not settings.impression_log:
        return None
    folder = settings.impression_log_dir
    writers = max(1, settings.workers)
    # Feedback has a quarter of the room, because clicks are much smaller than what was shown.
    quarter = settings.impression_log_bytes // 4
    files = Files(folder, settings.impression_log_bytes - quarter, writers)
    feedback = Files(folder, quarter, writers, kind=FEEDBACK)
    return ImpressionLog(settings.impression_log, folder, files, feedback, meters)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    service: Service = app.state.service
    cpus.keep_to_one_thread()
    service.workers.enter()
    drain_on_sigterm(service)
    service.connections.start(service.admission.show)
    if service.impressions is not None:
        service.impressions.start()
    seconds = service.settings.poll_seconds
    following = [asyncio.create_task(service.keys.follow(seconds))]
    if service.experiments is not None:
        following.append(asyncio.create_task(service.experiments.follow(seconds)))
    if service.loader is not None:
        if service.loader.remote is not None:
            service.loader.remote.start()
        following.append(asyncio.create_task(service.loader.follow(seconds)))
        following.append(asyncio.create_task(service.loader.tables.follow(seconds)))
        # Until the models are loaded this worker could only answer with 503. Connections go to other workers while
        # there are some, and where all of them died they wait for a while.
        wait = None if service.workers.others_serve() else _PATIENCE if service.workers.replaces else 0.0
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await service.loader.tried.wait()
                if service.experiments is not None:
                    await service.experiments.looked.wait()
    try:
        # What every connection of this server gets (`localrank_service.http.protocol`).
        yield {
            "connections": service.connections,
            "admission": service.admission,
            "cors": service.cors,
            "keys": service.keys,
        }
    finally:
        service.connections.stop()
        if service.loader is not None and service.loader.remote is not None:
            service.loader.remote.stop()
        for task in following:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if service.experiments is not None:
            await asyncio.to_thread(service.experiments.shadow.close)
        service.workers.leave()
        if service.impressions is not None:
            await asyncio.to_thread(service.impressions.close)
        await asyncio.to_thread(service.observer.close)


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()["app"] = app = create_app()
    return app
