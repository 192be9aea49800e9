from __future__ import annotations

import json
import logging

import pytest

from localrank_service.process.logs import JsonFormatter, TextFormatter, config
from localrank_service.process.settings import Settings


def test_a_record_is_one_line_of_json() -> None:
    failure = (ValueError, ValueError("two\nlines"), None)
    record = logging.LogRecord("localrank", logging.ERROR, "", 1, "GET %s", ("/x",), failure)
    record.request_id = "r-1"

    line = JsonFormatter().format(record)

    assert "\n" not in line
    members = json.loads(line)
    assert ("error", "GET /x", "r-1") == (members["level"], members["message"], members["request_id"])
    assert members["exception"].endswith("ValueError: two\nlines")
    assert members["time"].endswith("+00:00")


@pytest.mark.parametrize(("chosen", "formatter"), [("json", "json"), ("text", "text"), ("auto", "json")])
def test_the_format_is_a_setting(chosen: str, formatter: str) -> None:
    # Under pytest, standard error is no terminal.
    handlers = config(Settings.model_validate({"log_format": chosen}))["handlers"]

    assert formatter == handlers["stderr"]["formatter"]


def test_what_was_passed_along_becomes_members() -> None:
    record = logging.makeLogRecord({"msg": "GET /x 200", "levelname": "INFO", "status": 200, "path": "/x"})

    assert {"status": 200, "path": "/x"}.items() <= json.loads(JsonFormatter().format(record)).items()
    assert "GET /x 200 status=200 path=/x" == TextFormatter("%(message)s").format(record)


def test_a_record_of_text_is_one_line_and_a_traceback() -> None:
    failure = (ValueError, ValueError("why"), None)
    record = logging.LogRecord(
        "localrank", logging.ERROR, "", 1, "GET %s", ("/x\n12:00 INFO \x1b[1mforged",), failure
    )

    first, *others = TextFormatter("%(message)s").format(record).split("\n")

    assert r"GET /x\n12:00 INFO \x1b[1mforged" == first
    assert ["ValueError: why"] == others
