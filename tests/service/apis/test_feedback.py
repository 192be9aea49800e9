"""What ``POST /v1/feedback`` takes, and how it says what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from localrank_service.apis.evaluate.reader import EVALUATE, JUDGED
from localrank_service.apis.feedback import FEEDBACK, MOST_EVENTS, read
from localrank_service.process.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from localrank_service.models.live import LiveModel
    from localrank_service.online.impressions import Event

EVENT: dict[str, Any] = {"request_id": "r", "id": "a", "click": True}
HUGE = EVENT | {"id": "huge"}
AS_JSON = {"content-type": "application/json"}


def events(*several: Any) -> list[Event]:
    return read(orjson.dumps({"events": list(several)}))


def test_an_event_is_a_click_or_a_grade_of_a_document_by_id_or_position() -> None:
    click, grade = events(
        {"request_id": "r", "id": 7, "click": True, "event_id": "e", "query": None},
        {"request_id": "r", "query": 2, "index": 0, "grade": 0},
    )

    assert ("r", 0, 7, None, True, None, "e") == (
        click.request_id, click.query, click.id, click.index, click.click, click.grade, click.event_id
    )  # fmt: skip
    assert (2, None, 0, False, 0.0) == (grade.query, grade.id, grade.index, grade.click, grade.grade)


@pytest.fixture
async def logging(connect: Any, tiny_model: LiveModel, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a service that logs impressions."""
    settings = Settings(impression_log=1, impression_log_dir=tmp_path / "log")
    async with connect(settings, models=[tiny_model]) as client:
        yield client


@pytest.mark.parametrize(
    ("event", "pointer", "detail"),
    [
        (EVENT | {"clicks": 1}, "/events/0/clicks", "unknown member 'clicks'; expected some of request_id, query"),
        (EVENT | {"request_id": ""}, "/events/0/request_id", "expected a text of 1 to 128 characters"),
        (EVENT | {"request_id": "x" * 129}, "/events/0/request_id", "expected a text of 1 to 128 characters"),
        ({"id": "a", "click": True}, "/events/0", "events[0] has no request_id"),
        (EVENT | {"index": 1}, "/events/0", "expected either id or index for its document, found both"),
        ({"request_id": "r", "click": True}, "/events/0", "either id or index for its document, found none"),
        (EVENT | {"grade": 1}, "/events/0", "expected either click or grade for its judgement, found both"),
        ({"request_id": "r", "id": 1}, "/events/0", "either click or grade for its judgement, found none"),
        (EVENT | {"click": False}, "/events/0/click", "expected true, found false"),
        (EVENT | {"query": -1}, "/events/0/query", "expected an integer of at least 0, found -1"),
        (EVENT | {"id": 1.5}, "/events/0/id", "expected a text or an integer, found 1.5"),
        (HUGE, "/events/0/id", ""),
        (EVENT | {"event_id": "x" * 513}, "/events/0/event_id", "expected at most 512 characters"),
        ({"request_id": "r", "id": 1, "grade": 101}, "/events/0/grade", "expected a number from 0 to 100"),
        ({"request_id": "r", "id": 1, "grade": "2"}, "/events/0/grade", "expected a number from 0 to 100"),
        ([], "/events/0", "expected an object, found"),
    ],
)  # fmt: skip
@pytest.mark.anyio
async def test_what_is_wrong_is_said(
    event: Any, pointer: str, detail: str, logging: httpx.AsyncClient
) -> None:
    # More than 64 bits, which the serialiser does not write.
    body = orjson.dumps({"events": [event | {"id": 7} if event == HUGE else event]})
    body = body.replace(b'"id":7', b'"id":18446744073709551616') if event == HUGE else body

    answer = await logging.post("/v1/feedback", content=body, headers=AS_JSON)

    assert (422, pointer) == (answer.status_code, answer.json()["pointer"])
    assert detail in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 422),
        (b"{}", 422),
        (b'{"events": {}}', 422),
        (b'{"events": [], "event": 1}', 422),
        (b'{"events": [], "events": []}', 400),
        (b"[" * 10_000, 400),
        (b" " * (2**20 + 1), 413),
        (b'{"events": []}'.ljust(2**20), 200),
        (orjson.dumps({"events": [EVENT] * MOST_EVENTS}), 200),
        (orjson.dumps({"events": [EVENT] * (MOST_EVENTS + 1)}), 413),
        (orjson.dumps({"events": [[0] * 10_000]}), 413),
        (orjson.dumps({"events": [{"x": {"y": ["z"] * 20_000}}]}), 413),
    ],
)
@pytest.mark.anyio
async def test_bodies_have_one_list_of_limited_size(
    body: bytes, status: int, logging: httpx.AsyncClient
) -> None:
    assert status == (await logging.post("/v1/feedback", content=body, headers=AS_JSON)).status_code


@pytest.mark.anyio
async def test_other_types_callers_without_a_key_and_services_without_a_log_refuse(
    connect: Any, tiny_model: LiveModel, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    settings = Settings(
        impression_log=1, impression_log_dir=tmp_path / "log", api_key="search:the-serving-key"
    )
    key = {"x-api-key": "the-serving-key"}
    async with connect(settings, models=[tiny_model]) as guarded:
        text = await guarded.post("/v1/feedback", content=b"{}", headers=key | {"content-type": "text/plain"})
        nobody = await guarded.post("/v1/feedback", json={"events": [EVENT]})
    off = await client.post("/v1/feedback", json={"events": [EVENT]})

    assert (415, 401, 409) == (text.status_code, nobody.status_code, off.status_code)
    assert not (tmp_path / "log").exists()
    assert "urn:localrank:problem:feature-off" == off.json()["type"]
    assert "set LOCALRANK_IMPRESSION_LOG" in off.json()["detail"]


@pytest.mark.parametrize("table", [FEEDBACK, EVALUATE, JUDGED[-1:]])
def test_the_docs_show_every_member_and_what_it_means(table: Any) -> None:
    rows = "".join(f"| `{member.name}` | {member.meaning} |\n" for member in table)

    assert rows in (Path(__file__).parents[3] / "docs" / "use" / "http.md").read_text()
