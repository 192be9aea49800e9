"""What the README shows is what happens."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.serving import serving

ROOT = Path(__file__).parents[2]


def rounded(answer: dict[str, Any]) -> dict[str, Any]:
    """Leave out what differs from request to request, and round what was shortened to be read."""
    route = {name: round(v, 4) if isinstance(v, float) else v for name, v in answer["route"].items()}
    kept = {name: value for name, value in answer.items() if name not in {"request_id", "timings_ms"}}
    scores = [{**result, "score": round(result["score"], 6)} for result in answer["results"]]
    return {**kept, "route": route, "results": scores}


def test_the_first_request_gets_the_answer_that_is_shown(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    request = re.search(r"-d '(.+?)'", readme, re.DOTALL)
    shown = re.search(r"```json\n(.+?)```", readme, re.DOTALL)
    assert request
    assert shown
    expected = json.loads(shown[1])

    with serving(ROOT / "models", log=tmp_path / "server.log") as client:
        answer = client.post("/v1/rerank", json=json.loads(request[1])).json()

    assert rounded(expected) == rounded(answer)
    assert expected.keys() == answer.keys()
    assert expected["timings_ms"].keys() == answer["timings_ms"].keys()


@pytest.mark.parametrize(
    "page", ["README.md", *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*.md"))]
)
def test_links_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", (ROOT / page).read_text())

    for link in links:
        assert ((ROOT / page).parent / link).exists(), link
