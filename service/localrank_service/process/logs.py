"""How the service logs: one JSON object per line, or text on a terminal.

Every record is exactly one line, so that a caller cannot add lines to the log. A traceback follows
its line in text, and is a member in JSON.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from localrank_service.process.settings import Settings

#: What every record has; everything else was passed as ``extra``.
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _USUAL}


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON; what was passed as ``extra`` becomes members."""

    def format(self, record: logging.LogRecord) -> str:
        members: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
            **_extra(record),
        }
        if record.exc_info:
            members["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(members, default=str).decode()


class TextFormatter(logging.Formatter):
    """A record as one line of text; what was passed as ``extra`` follows the message as ``name=value``."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        """Return the line without its traceback."""
        extra = "".join(f" {name}={value}" for name, value in _extra(record).items())
        return "".join(
            c if c.isprintable() else ascii(c)[1:-1] for c in super().formatMessage(record) + extra
        )


def config(settings: Settings) -> dict[str, Any]:
    """Return the settings of `logging.config.dictConfig` for this process and its workers."""
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not sys.stderr.isatty())
    level = settings.log_level.upper()
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "text": {
                "()": "localrank_service.process.logs.TextFormatter",
                "fmt": "%(asctime)s %(levelname)-7s %(message)s",
                "datefmt": "%H:%M:%S",
            },
            "json": {"()": "localrank_service.process.logs.JsonFormatter"},
        },
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "json" if as_json else "text",
                "stream": "ext://sys.stderr",
            }
        },
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # The server's own chatter about its start is in our words already.
            "uvicorn.error": {"level": "WARNING" if level == "INFO" else level},
            # If a user turns these lines on, they appear at every level.
            "localrank.access": {"level": "INFO"},
        },
    }
