from __future__ import annotations

import json
import logging

import pytest

from localrank_service.process.logs import JsonFormatter, config
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
