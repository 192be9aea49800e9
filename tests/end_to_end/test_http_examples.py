"""The examples of docs/use/http.md, run as they are printed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from localrank import load
from tests.end_to_end.http_page import PAGE, PRINTED, answers, service, steady

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with service(tmp_path_factory.mktemp("examples")) as found:
        yield found


def commands() -> list[tuple[str, str | None]]:
    """Every ``sh`` block with the ``json`` block that follows it, if one does."""
    found = []
    for position, (kind, text) in enumerate(BLOCKS):
        if kind == "sh":
            after = BLOCKS[position + 1] if position + 1 < len(BLOCKS) else ("", "")
            found.append((text, after[1] if after[0] == "json" else None))
    return found


def close(expected: Any, found: Any) -> bool:
    """Whether two answers are equal, but for what rounding to four digits makes of numbers."""
    if isinstance(expected, dict):
        return expected.keys() == found.keys() and all(
            close(expected[name], found[name]) for name in expected
        )
    if isinstance(expected, list):
        return len(expected) == len(found) and all(map(close, expected, found))
    if isinstance(expected, float):
        return bool(expected == pytest.approx(found, rel=1e-3, abs=1e-9))
    return bool(expected == found)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize(("command", "printed"), commands())
def test_a_command_is_answered_as_printed(command: str, printed: str | None, url: str) -> None:
    """`make http-page` writes the answers anew."""
    for line, answer in answers(command, url):
        assert answer
        if "/metrics" in line or "/docs" in line:
            continue
        got = json.loads(answer)
        if printed is None:
            assert "detail" not in got, answer
        else:
            assert close(json.loads(printed), steady(got)), answer


def test_the_client_built_from_the_schema_ranks(url: str) -> None:
    [snippet] = [text for kind, text in BLOCKS if kind == "python" and "/schema" in text]
    names: dict[str, Any] = {}

    exec(snippet.replace(PRINTED, url), names)

    assert {"d1", "d2"} == set(names["order"])
    assert set(names["documents"]) == {result["id"] for result in names["answer"]["results"]}
    assert "demo" == names["answer"]["model"]
    names["client"].close()


def test_an_array_is_ranked_as_its_bytes(url: str) -> None:
    [snippet] = [text for kind, text in BLOCKS if kind == "python" and "x-npy" in text]
    names: dict[str, Any] = {}

    exec(snippet.replace(PRINTED, url), names)

    assert 2 == len(names["best"])
    assert {0, 1, 2} > set(names["best"])


def test_the_client_ranks_as_the_ranker_does(url: str) -> None:
    [snippet] = [text for kind, text in BLOCKS if kind == "python" and "localrank.client" in text]
    names: dict[str, Any] = {}

    exec(snippet.replace(PRINTED, url), names)

    expected = load(ROOT / "models" / "demo").rank(names["documents"])
    assert [f"d{index + 1}" for index in expected.order[:2]] == list(names["answer"].ids)
    assert expected.scores[expected.order[:2]].tolist() == names["answer"].scores.tolist()
    first, second = names["both"]
    assert expected.order.tolist() == first.order.tolist()
    assert [("demo", 2, 10, True)] == [
        (one.name, one.version, one.n_features, one.default) for one in names["served"]
    ]
    assert names["detail"] == "the array has 3 features per document; expected 10"
    assert "3 values; expected 10" in second.problem.detail


def test_the_readme_s_lines_rank(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    readme = (ROOT / "README.md").read_text()
    [snippet] = re.findall(r"## From Python\n\n```python\n(.*?)```", readme, flags=re.DOTALL)
    names: dict[str, Any] = {
        "documents": [[float(i + j) for j in range(10)] for i in range(3)],
        "ids": ["a", "b", "c"],
    }

    exec(snippet.replace(PRINTED, url), names)

    assert set(names["ids"]) == set(names["answer"].ids)
    assert capsys.readouterr().out.startswith("('")


def test_tritonclient_ranks(url: str) -> None:
    [snippet] = [text for kind, text in BLOCKS if kind == "python" and "triton" in text]
    names: dict[str, Any] = {}

    exec(snippet.replace(PRINTED.removeprefix("http://"), url.removeprefix("http://")), names)

    assert [0, 1, 2] == sorted(names["ranking"])


def test_cohere_s_client_ranks(url: str) -> None:
    [snippet] = [text for kind, text in BLOCKS if kind == "python" and "import cohere\n" in text]
    names: dict[str, Any] = {}

    exec(snippet.replace(PRINTED, url), names)

    assert [0, 1, 2] == sorted(names["order"])


def described_examples() -> list[tuple[str, Any]]:
    """The examples that ``/docs`` offers to try, with their routes."""
    document = json.loads((ROOT / "docs" / "openapi.json").read_text())
    return [
        (path.replace("{name}", "demo").replace("{version}", "1"), example)
        for path, operations in document["paths"].items()
        if "requestBody" in operations.get("post", {})
        for name in [operations["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]]
        for example in document["components"]["schemas"][name.rpartition("/")[2]].get("examples", ())
    ]


@pytest.mark.parametrize(("path", "example"), described_examples())
def test_an_example_of_the_description_can_be_tried(path: str, example: Any, url: str) -> None:
    response = httpx.post(url + path, json=example)

    assert 200 == response.status_code, response.text
    assert {200} >= {answer["status"] for answer in response.json().get("answers", ())}


def test_examples_are_described() -> None:
    paths = {path for path, _ in described_examples()}

    assert {"/v1/rerank", "/v1/rerank/batch", "/v2/rerank", "/v2/models/demo/infer"} <= paths


def test_every_route_has_an_example() -> None:
    routes = json.loads((ROOT / "docs" / "openapi.json").read_text())["paths"]

    for route in routes:
        pattern = re.escape(PRINTED + route).replace(re.escape("{name}"), r"[\w@]+")
        pattern = pattern.replace(re.escape("{version}"), r"\d+") + r"[\s'\"?]"
        assert any(re.search(pattern, text) for kind, text in BLOCKS if kind == "sh"), route
