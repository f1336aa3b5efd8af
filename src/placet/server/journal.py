"""The server's own log: an event name and its fields on a line, line breaks escaped: nobody can forge entries."""

import logging
import sys
from typing import Literal

import structlog

Format = Literal["auto", "text", "json"]


def configure(level: str, form: Format) -> None:
    """Everything this process logs goes to stderr in one form; libraries are heard from warnings on."""
    number = logging.getLevelNamesMapping()[level.upper()]
    as_text = form == "text" or (form == "auto" and sys.stderr.isatty())
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[structlog.types.Processor] = (
        [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
        if as_text
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
        )
    )
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler], force=True)
