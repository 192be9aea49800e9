from __future__ import annotations

import json
import logging
import logging.config
from typing import Any

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
def test_the_format_is_a_setting(chosen: Any, formatter: str) -> None:
    # Under pytest, standard error is no terminal.
    handlers = config(Settings(log_format=chosen))["handlers"]

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


def test_a_record_of_json_has_the_time_in_milliseconds_and_no_member_of_the_library() -> None:
    record = logging.makeLogRecord(
        {
            "msg": "m",
            "name": "localrank",
            "levelname": "WARNING",
            "created": 1.0625,
            "process": 7,
            "taskName": "t",
        }
    )

    assert {
        "time": "1970-01-01T00:00:01.062+00:00",
        "level": "warning",
        "logger": "localrank",
        "message": "m",
        "pid": 7,
    } == json.loads(JsonFormatter().format(record))


def test_what_json_cannot_hold_is_shown_as_text() -> None:
    record = logging.makeLogRecord({"msg": "m", "levelname": "INFO", "what": {1}})

    assert "{1}" == json.loads(JsonFormatter().format(record))["what"]


@pytest.mark.parametrize(
    ("terminal", "chosen", "formatter"),
    [(True, "auto", "text"), (True, "json", "json"), (False, "text", "text"), (False, "auto", "json")],
)
def test_auto_is_text_on_a_terminal(
    terminal: bool,  # noqa: FBT001
    chosen: Any,
    formatter: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)

    handlers = config(Settings(log_format=chosen))["handlers"]

    assert {"stderr"} == handlers.keys()
    assert formatter == handlers["stderr"]["formatter"]


@pytest.mark.parametrize(
    ("level", "server"), [("info", "WARNING"), ("debug", "DEBUG"), ("warning", "WARNING"), ("error", "ERROR")]
)
def test_the_level_is_a_setting_and_the_server_is_quieter_about_its_start(level: Any, server: str) -> None:
    made = config(Settings(log_level=level))

    assert (1, level.upper(), ["stderr"]) == (
        made["version"],
        made["root"]["level"],
        made["root"]["handlers"],
    )
    assert server == made["loggers"]["uvicorn.error"]["level"]
    assert "INFO" == made["loggers"]["localrank.access"]["level"]


def test_loggers_that_were_there_before_go_on() -> None:
    """Modules make theirs when they are imported, before the settings are known."""
    before = logging.getLogger("localrank.service")
    root = logging.getLogger()
    handlers, level, levels = root.handlers[:], root.level, {}
    for name in ("uvicorn.error", "localrank.access"):
        levels[name] = logging.getLogger(name).level
    try:
        logging.config.dictConfig(config(Settings(log_format="json", log_level="warning")))
        disabled, found = before.disabled, root.level
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        for name, one in levels.items():
            logging.getLogger(name).setLevel(one)

    assert (False, logging.WARNING) == (disabled, found)
