"""Try: documents in, their order out, and why."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.serving import serving
from tests.service.page.conftest import PHONE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx
    from playwright.sync_api import Page, Route

    from tests.service.page.conftest import Visit

FEATURES = (
    "bm25", "title_match", "body_match", "url_length", "pagerank",
    "inlinks", "freshness", "clicks", "dwell_time", "spam",
)  # fmt: skip
ROWS = [
    [18.0, 0.50, 0.50, 69, 0.50, 6.0, 0.50, 0.50, 91, 0.50],
    [10.1, 0.34, 0.72, 47, 0.31, 4.1, 0.69, 0.37, 62, 0.70],
    [25.3, 0.66, 0.31, 90, 0.70, 8.2, 0.33, 0.65, 121, 0.29],
]
IDS = ["plain", "fresh", "long"]


def given(page: Page, text: str) -> None:
    page.get_by_label("Rows").fill(text)


def rank(page: Page) -> None:
    page.get_by_role("button", name="Rank", exact=True).click()


def names(page: Page) -> list[str]:
    return page.locator(".ranking .name").all_inner_texts()


def ranked(page: Page) -> list[str]:
    """Rank, and return the documents in their new order."""
    rank(page)
    page.get_by_role("heading", name="Order of the model").wait_for()
    return names(page)


def order_of(client: httpx.Client, request: dict[str, Any]) -> list[int]:
    answer = client.post("/v1/rerank", json={"model": "demo", **request}).raise_for_status().json()
    return [result["index"] for result in answer["results"]]


def csv(*, separator: str = ",") -> str:
    lines = [["id", *FEATURES], *([name, *map(str, row)] for name, row in zip(IDS, ROWS, strict=True))]
    return "\n".join(separator.join(line) for line in lines)


def test_a_sample_query_is_there_at_once_and_its_documents_move(visit: Visit, service: httpx.Client) -> None:
    page = visit.open()
    page.locator(".ranking li").first.wait_for()
    before = names(page)

    after = ranked(page)

    query = service.get("/v1/models/demo/sample").json()
    expected = order_of(service, {"features": query["features"]})
    assert [f"document {index + 1}" for index in range(len(expected))] == before
    assert [f"document {index + 1}" for index in expected] == after


def test_documents_move_from_the_given_order_unless_motion_is_unwanted(
    visits: Callable[..., Visit], service: httpx.Client
) -> None:
    counting = """window.moved = 0;
    const animate = Element.prototype.animate;
    Element.prototype.animate = function (...given) { window.moved += 1; return animate.apply(this, given); };"""
    for motion, moves in (("no-preference", True), ("reduce", False)):
        visit = visits(service, motion=motion)
        visit.page.add_init_script(counting)
        page = visit.open()
        page.locator(".ranking li").first.wait_for()

        ranked(page)

        assert moves == (page.evaluate("window.moved") > 0)


@pytest.mark.parametrize(
    "text",
    [
        csv(),
        csv(separator="\t"),
        csv(separator=";").replace("plain", '"plain"'),
        str([{"id": name, "features": row} for name, row in zip(IDS, ROWS, strict=True)]).replace("'", '"'),
        str(
            [
                {"id": name, **dict(zip(FEATURES, row, strict=True))}
                for name, row in zip(IDS, ROWS, strict=True)
            ]
        ).replace("'", '"'),
        str({"ids": IDS, "features": ROWS}).replace("'", '"'),
        "\n".join(
            f"2 qid:7 {' '.join(f'{i}:{value}' for i, value in enumerate(row, 1))} # docid = {name} inc = 1"
            for name, row in zip(IDS, ROWS, strict=True)
        ),
    ],
    ids=["csv", "tabs", "semicolons", "json rows", "json names", "request", "letor"],
)
def test_rows_are_read_in_every_form(text: str, visit: Visit, service: httpx.Client) -> None:
    page = visit.open()
    given(page, text)

    after = ranked(page)

    expected = [IDS[index] for index in order_of(service, {"features": ROWS})]
    assert expected == [name.partition("judged")[0].strip() for name in after]


def test_columns_without_names_are_the_models_in_its_order(visit: Visit) -> None:
    page = visit.open()
    given(page, "\n".join(",".join(map(str, row)) for row in ROWS))

    assert 3 == len(ranked(page))


#: What the page reads for a model of a price and a brand, which is a category.
VALUES: dict[str, Any] = {
    'price,brand\n1.5,nike\n2,7\n3,\n4,"a,b"': [[1.5, "nike"], [2, "7"], [3, None], [4, "a,b"]],
    "brand,price\nnike,1": [["nike", 1]],
    "1.5,nike\n2,kobo": [[1.5, "nike"], [2, "kobo"]],
    '[{"id":"a","price":1,"brand":true}]': [[1, True]],
    '{"features":[[1,"nike"],[2,7]]}': [[1, "nike"], [2, 7]],
    "price,brand\nx,nike": "Line 2, feature 1: expected a number",
    '[["x","nike"]]': "Document 1, feature 1: expected a number or null",
    '[[1,["nike"]]]': "Document 1, feature 2: expected a number or null",
}


def test_values_of_categories_are_read(visit: Visit) -> None:
    page = visit.open()

    found = page.evaluate(
        """async (texts) => {
          const { readRows } = await import("/page/rows.js");
          const features = [{ name: "price" }, { name: "brand", kind: "category", values: ["nike", "7"] }];
          return texts.map((text) => { try { return readRows(text, features).rows; } catch (error) { return error.message; } });
        }""",
        list(VALUES),
    )

    for text, one in zip(VALUES, found, strict=True):
        expected = VALUES[text]
        assert one == expected or (isinstance(expected, str) and one.startswith(expected)), (text, one)


def test_of_several_queries_the_first_is_ranked_and_its_judgements_are_shown(visit: Visit) -> None:
    page = visit.open()
    given(page, "2 qid:1 1:3 2:1\n0 qid:1 1:+1. 3:2e0\n1 qid:2 1:5 # other\n")

    after = ranked(page)

    assert ["judged 0", "judged 2"] == sorted(name[-8:] for name in after)


def test_a_file_is_read(visit: Visit, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(csv())
    page = visit.open()
    page.locator(".ranking li").first.wait_for()

    page.locator("#file").set_input_files(tmp_path / "rows.csv")
    page.get_by_text("3 documents. Press Rank").wait_for()

    assert set(IDS) == set(ranked(page))


def held(page: Page, address: str) -> list[Route]:
    """Keep the next thing that the page asks for at an address; `continue_` lets it go on."""
    kept: list[Route] = []

    def keep(route: Route) -> None:
        kept.append(route)

    page.route(address, keep, times=1)
    return kept


def let_go(page: Page, kept: list[Route]) -> None:
    """Let it go on, and wait until the answer is there and the page has looked at it."""
    [one] = kept
    with page.expect_response(one.request.url):
        one.continue_()
    page.evaluate("new Promise((done) => setTimeout(done, 50))")


def wait_for(page: Page, kept: list[Route]) -> None:
    while not kept:
        page.wait_for_timeout(5)


def test_a_sample_that_arrives_late_leaves_what_was_typed_meanwhile(visit: Visit) -> None:
    page = visit.open()
    page.locator(".ranking li").first.wait_for()
    samples = held(page, "**/sample?*")
    page.get_by_role("button", name="Take a sample query").click()
    wait_for(page, samples)
    given(page, csv())

    let_go(page, samples)

    assert csv() == page.get_by_label("Rows").input_value()
    assert set(IDS) == set(ranked(page))


def test_the_first_sample_leaves_what_was_typed_before_it(visit: Visit) -> None:
    models = held(visit.page, "**/v1/models/demo")
    visit.page.goto(visit.base)
    wait_for(visit.page, models)
    given(visit.page, csv())

    let_go(visit.page, models)

    visit.page.get_by_text("3 documents. Press Rank").wait_for()
    assert csv() == visit.page.get_by_label("Rows").input_value()


@pytest.mark.parametrize(("late", "typed"), [("**/v1/models/demo", csv()), ("**/sample?*", None)])
def test_who_presses_rank_at_once_gets_a_ranking(late: str, typed: str | None, visit: Visit) -> None:
    answers = held(visit.page, late)
    visit.page.goto(visit.base)
    wait_for(visit.page, answers)
    if typed:
        given(visit.page, typed)
    rank(visit.page)

    let_go(visit.page, answers)

    visit.page.get_by_role("heading", name="Order of the model").wait_for()


def test_another_model_leaves_the_users_rows_and_replaces_samples(visit: Visit) -> None:
    page = visit.open()
    page.locator(".ranking li").first.wait_for()
    given(page, csv())

    page.locator("#model").select_option("old")
    page.get_by_text("3 documents. Press Rank").wait_for()

    assert csv() == page.get_by_label("Rows").input_value()
    given(page, " ")
    with page.expect_response("**/sample?query=0"):
        page.locator("#model").select_option("demo")


def test_a_ranking_that_arrives_late_leaves_the_documents_that_came_meanwhile(visit: Visit) -> None:
    page = visit.open()
    page.locator(".ranking li").first.wait_for()
    given(page, csv())
    rankings = held(page, "**/v1/rerank")
    rank(page)
    wait_for(page, rankings)
    with page.expect_response("**/sample?*"):
        page.get_by_role("button", name="Take a sample query").click()
    page.get_by_text("Press Rank to reorder.").filter(has_not_text="3 documents.").wait_for()

    let_go(page, rankings)
    page.locator("#view-try form .primary:enabled").wait_for()

    assert page.get_by_role("heading", name="Order as given").is_visible()
    assert "document 1" == names(page)[0]


def test_the_model_that_was_chosen_last_is_shown_whichever_arrives_last(visit: Visit) -> None:
    page = visit.open()
    page.locator(".ranking li").first.wait_for()
    old = held(page, "**/v1/models/old")
    page.locator("#model").select_option("old")
    wait_for(page, old)
    with page.expect_response("**/v1/models/demo"):
        page.locator("#model").select_option("demo")

    let_go(page, old)
    page.goto(f"{visit.base}/#models")

    page.get_by_role("heading", name="What demo is").wait_for()


def test_a_file_may_be_dropped(visit: Visit) -> None:
    page = visit.open()
    page.locator(".ranking li").first.wait_for()
    transfer = page.evaluate_handle(
        "(text) => { const t = new DataTransfer(); t.items.add(new File([text], 'rows.csv')); return t; }",
        csv(),
    )

    page.dispatch_event("form.card", "drop", {"dataTransfer": transfer})
    page.get_by_text("3 documents. Press Rank").wait_for()

    assert IDS == names(page)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "There are no documents. Paste rows, drop a file or take a sample query."),
        ("[[1, 2", "This text begins like JSON but is not valid JSON"),
        ("{}", "Expected a list of rows"),
        ("[1, 2]", "found a list of numbers"),
        ('[[1, "two"]]', 'Document 1, feature 2: expected a number or null, found "two".'),
        ("1,2\n3", "Line 2: expected 2 values, found 1."),
        ("a,b\n1,x", "Line 2, feature 2: expected a number"),
        ("0 qid:1 1:2 99:1", "Line 1: feature 99 is out of range; the model has features 1 to 10."),
        ("0 qid:1 one:2", "Line 1: expected feature:value"),
        ("0 qid:1 1:Infinity", "Line 1: expected feature:value"),
        ("0 qid:1 1:?", "is missing"),
        ("1,2\n3,4", "features[0] has 2 values; expected 10"),
        ("[[" + ",".join(["1e39"] * 10) + "]]", "float32"),
    ],
)
def test_what_is_wrong_is_said_beside_the_rows(text: str, said: str, visit: Visit) -> None:
    visit.expected.append("422")
    page = visit.open()
    page.locator(".ranking li").first.wait_for()
    given(page, text)

    rank(page)

    alert = page.locator("form [role=alert]")
    alert.filter(has_text=said).wait_for()
    assert page.get_by_label("Rows").get_attribute("aria-invalid") is not None


def test_a_document_tells_what_its_score_is_made_of(visit: Visit, service: httpx.Client) -> None:
    page = visit.open()
    given(page, csv())
    first = ranked(page)[0]

    page.locator(".ranking summary").first.click()

    explanation = service.post("/v1/rerank", json={"features": ROWS, "explain": "contributions"}).json()[
        "explanation"
    ]
    largest = max(
        zip(explanation["contributions"][0], explanation["features"], strict=True),
        key=lambda one: abs(one[0]),
    )
    row = page.get_by_role("region", name=f"What adds to the score of {first}").locator("tbody tr").first
    assert largest[1] == row.locator("th").inner_text()
    shown = float(row.locator("td").first.inner_text().replace("−", "-"))
    assert shown == pytest.approx(largest[0], rel=0.01)


def test_two_documents_are_compared(visit: Visit) -> None:
    page = visit.open()
    given(page, csv())
    first, second, third = ranked(page)

    page.get_by_text(f"{first} scores").filter(has_text=f"more than {second}").wait_for()
    page.get_by_label("Compared with").select_option(label=f"3. {third}")
    page.get_by_text(f"more than {third}").wait_for()
    page.get_by_label("This document").select_option(label=f"3. {third}")
    page.get_by_text("Both score the same").wait_for()
    page.get_by_label("Compared with").select_option(label=f"1. {first}")

    page.get_by_text(f"It is not: {third} scores").wait_for()


def test_the_stages_stand_one_after_the_other(visit: Visit) -> None:
    page = visit.open()
    ranked(page)

    stages = page.get_by_role("region", name="Where the time went").locator("tbody th").all_inner_texts()
    lefts = (
        page.get_by_role("region", name="Where the time went")
        .locator(".fill")
        .evaluate_all("all => all.map((one) => parseFloat(one.style.left))")
    )

    assert ["decode", "sign", "route", "score", "order"] == stages[:5]
    assert "total" == stages[-1]
    assert sorted(lefts) == lefts
    assert 0 == lefts[0]


@pytest.mark.parametrize("language", ["curl", "Python", "tritonclient"])
def test_the_same_request_runs_elsewhere(language: str, visit: Visit, tmp_path: Path) -> None:
    page = visit.open()
    given(page, csv().replace("plain", "it's “plain”"))
    expected = [["it's “plain”", "fresh", "long"].index(name) for name in ranked(page)]

    page.get_by_label(language).check()
    page.get_by_role("button", name="Copy").click()
    page.get_by_text("Copied.").wait_for()
    code = page.evaluate("navigator.clipboard.readText()")

    (tmp_path / "code").write_text(code)
    command = ["bash", "code"] if language == "curl" else [sys.executable, "-W", "ignore", "code"]
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    said = subprocess.run(
        command, cwd=tmp_path, check=True, capture_output=True, text=True, env=environment
    ).stdout
    if language == "curl":
        found = [int(index) for index in re.findall(r'"index":(\d+)', said)]
    elif language == "Python":
        found = [
            ["it's “plain”", "fresh", "long"].index(re.split(r"\s", line, maxsplit=1)[1].rpartition(" ")[0])
            for line in said.splitlines()
        ]
    else:
        found = [int(line.split()[0]) for line in said.splitlines()]
    assert expected == found


@pytest.mark.parametrize("colour", ["light", "dark"])
@pytest.mark.parametrize("size", [None, PHONE], ids=["desk", "phone"])
def test_nothing_stands_in_the_way_of_anybody(
    colour: str, size: dict[str, int] | None, visits: Callable[..., Visit], service: httpx.Client
) -> None:
    visit = visits(service, colour=colour, size=size)
    page = visit.open()
    ranked(page)
    page.locator(".ranking summary").first.click()
    page.get_by_text("more than").wait_for()

    assert [] == visit.violations()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_all_of_it_works_with_the_keyboard_alone(visit: Visit) -> None:
    page = visit.open()
    page.locator(".ranking li").first.wait_for()

    def tab_to(matches: str) -> None:
        for _ in range(80):
            page.keyboard.press("Tab")
            if page.evaluate(f"document.activeElement.matches({matches!r})"):
                return
        raise AssertionError(f"no {matches} within reach of the keyboard")

    tab_to("#rows")
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(csv())
    tab_to("form .primary")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Order of the model").wait_for()
    tab_to("summary")
    page.keyboard.press("Enter")
    page.get_by_text("plus what each feature adds").wait_for()
    tab_to("[name=snippet]")
    page.keyboard.press("ArrowRight")

    assert "import httpx" in page.locator("pre code").inner_text()


def test_the_page_takes_no_part_in_experiments_and_says_if_it_has_to(
    visits: Callable[..., Visit], models: Path, tmp_path: Path
) -> None:
    """A proxy that removes unknown headers makes the page a user like any other."""
    mixed = {"name": "mixed", "kind": "interleaving", "model": "demo", "candidate": "demo@2"}
    (tmp_path / "experiments.json").write_text(json.dumps({"experiments": [mixed]}))
    flags = ("--experiments-file", str(tmp_path / "experiments.json"), "--model", "demo")
    with serving(models, *flags) as client:
        page = visits(client).open()
        page.locator(".ranking li").first.wait_for()
        query = client.get("/v1/models/demo/sample").json()
        own = order_of(client, {"model": "demo@1", "features": query["features"]})
        shown = ranked(page)
        arms = client.get("/v1/experiments").json()["experiments"][0]["arms"]

        def without_header(route: Route) -> None:
            headers = {
                name: sent for name, sent in route.request.headers.items() if name != "localrank-trial"
            }
            route.continue_(headers=headers)

        page.route("**/v1/rerank", without_header)
        rank(page)
        page.get_by_role("heading", name="Order of an experiment").wait_for()
        page.get_by_text("Experiment mixed has interleaved the first results").wait_for()
        page.close()

    assert [f"document {index + 1}" for index in own] == shown
    assert {} == arms
