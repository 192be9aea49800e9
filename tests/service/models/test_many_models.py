"""What a request costs, and what an error says, if there are very many models."""

from __future__ import annotations

import threading
from statistics import median
from time import process_time
from typing import TYPE_CHECKING, Any

import pytest

from localrank.registry.versions import few
from localrank_service.models.live import LiveModel
from localrank_service.telemetry.meters import Meters

if TYPE_CHECKING:
    import httpx

    from localrank.ranker import Ranker

pytestmark = pytest.mark.anyio


def models(number: int, ranker: Ranker) -> list[LiveModel]:
    return [LiveModel(f"model-{position:04d}", 1, ranker) for position in range(number)]


async def test_an_unknown_name_gets_those_nearest_to_it_and_the_number_of_the_others(
    connect: Any, tiny_ranker: Ranker
) -> None:
    versions = [LiveModel("model-0500", version, tiny_ranker) for version in range(2, 40)]
    async with connect(models=[*models(1000, tiny_ranker), *versions]) as client:
        asked = [
            await client.post("/v1/rerank", json={"model": name, "features": [[1, 2, 3, 4]]})
            for name in ("model-0499x", "model-0500@77", None)
        ]
        shown = [await client.get(path) for path in ("/v1/models/zzz", "/v1/models/zzz/versions")]

    details = [answer.json()["detail"] for answer in (*asked, *shown)]
    last = "no model 'zzz'; expected one of: model-0995, model-0996, model-0997, model-0998, model-0999 and 995 more"
    assert [
        (
            "no model 'model-0499x'; expected one of: model-0498, model-0499, model-0500, model-0501, model-0502 and "
            "995 more"
        ),
        (
            "no model 'model-0500@77'; expected one of: model-0500@6, model-0500@7, model-0500@8, model-0500@9, "
            "model-0500@champion and 35 more"
        ),
        (
            "the request names no model; expected one of: model-0000, model-0001, model-0002, model-0003, model-0004 and "
            "995 more"
        ),
        last,
        last,
    ] == details


async def test_lists_of_models_take_time_in_proportion_to_their_number(
    connect: Any, tiny_ranker: Ranker
) -> None:
    """Four times as many models take 16 times as long if each is compared with each."""

    async def seconds(client: httpx.AsyncClient, method: str, path: str) -> float:
        taken = []
        for _ in range(5):
            begun = process_time()
            assert 200 == (await client.request(method, path)).status_code
            taken.append(process_time() - begun)
        return median(taken)

    routes = {"/v1/models": "GET", "/v2/repository/index": "POST", "/readyz": "GET"}
    found: dict[str, list[float]] = {path: [] for path in routes}
    for number in (500, 2000):
        async with connect(models=models(number, tiny_ranker)) as client:
            for path, method in routes.items():
                found[path].append(await seconds(client, method, path))

    assert {} == {path: one for path, one in found.items() if one[1] > 9 * one[0]}


@pytest.mark.parametrize("path", ["/metrics", "/v2/models/stats"])
async def test_long_lists_of_figures_are_made_beside_the_event_loop(
    path: str, connect: Any, tiny_model: LiveModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect, threads = Meters.collect, []

    def noted(meters: Meters) -> Any:
        threads.append(threading.current_thread())
        return collect(meters)

    async with connect(models=[tiny_model]) as client:
        monkeypatch.setattr(Meters, "collect", noted)
        answer = await client.get(path)

    assert 200 == answer.status_code
    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.parametrize(
    ("found", "near", "said"),
    [
        ([], "x", "none"),
        ([1, 2, 3], 9, "1, 2, 3"),
        (list(range(1, 8)), None, "3, 4, 5, 6, 7 and 2 more"),
        (list(range(1, 1011)), 500, "498, 499, 500, 501, 502 and 1,005 more"),
        (["a", "b", "c", "d", "e", "f"], "", "a, b, c, d, e and 1 more"),
    ],
)
def test_of_many_names_a_few_are_shown(found: Any, near: Any, said: str) -> None:
    assert said == few(found, near)
