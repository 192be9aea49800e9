"""How the service logs: one JSON object per line, or text on a terminal."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from localrank_service.process.settings import Settings

__all__ = ["JsonFormatter", "config"]


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON; what was passed as ``extra`` becomes members."""

    def format(self, record: logging.LogRecord) -> str:
        members: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
        }
        if (request_id := getattr(record, "request_id", None)) is not None:
            members["request_id"] = request_id
        if record.exc_info:
            members["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(members, default=str).decode()


def config(settings: Settings) -> dict[str, Any]:
    """Return the settings of `logging.config.dictConfig` for this process and its workers."""
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not sys.stderr.isatty())
    level = settings.log_level.upper()
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "text": {"format": "%(asctime)s %(levelname)-7s %(message)s", "datefmt": "%H:%M:%S"},
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
        # The server's own chatter about its start is in our words already.
        "loggers": {
            "uvicorn.error": {"level": "WARNING" if level == "INFO" else level},
            "uvicorn.access": {"level": "INFO"},
        },
    }
