"""One line of JSON for each event; never a text, a label or a token."""

from __future__ import annotations

import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any

import orjson

LOGGER = logging.getLogger("hedgerow.serve")


class _JsonLines(logging.Formatter):
    """Writes events as JSON. Messages of other packages may hold what a client sent: those are left out."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.msg if record.name == LOGGER.name else record.name,
            **vars(record).get("facts", {}),
        }
        if record.name != LOGGER.name:
            line["message"] = str(record.msg)  # the template, without what would be put into it
        if record.exc_info and record.exc_info[1] is not None:
            line |= _failure_facts(record.exc_info[1])
        return orjson.dumps(line, default=str).decode()


def set_up_logs(level: str = "info") -> None:
    """Write the server's events of this level and above to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    for name in (LOGGER.name, "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper() if name == LOGGER.name else logging.WARNING)


def log_event(event: str, level: int = logging.INFO, **facts: Any) -> None:
    """Log an event with its facts; none of them may be what a client sent."""
    LOGGER.log(level, event, extra={"facts": facts})


def log_failure(error: BaseException, **facts: Any) -> None:
    """Log a bug: its kind and where it arose, but not its message, which may hold what a client sent."""
    log_event("failure", logging.ERROR, **facts, **_failure_facts(error))


def _failure_facts(error: BaseException) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)
    return {
        "exception": type(error).__name__,
        "stack": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }
