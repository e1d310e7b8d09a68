"""Readers and writers of the formats in which multi-label data come."""

from .errors import DataError, LeftOutWarning
from .jsonl import read_jsonl, write_jsonl
from .layout import read_part
from .mapped import map_data
from .part import Part
from .pecos import write_pecos
from .several import read_parts
from .times import Times
from .xmc_text import read_xmc_text, write_xmc_text

__all__ = [
    "DataError",
    "LeftOutWarning",
    "Part",
    "Times",
    "map_data",
    "read_jsonl",
    "read_part",
    "read_parts",
    "read_xmc_text",
    "write_jsonl",
    "write_pecos",
    "write_xmc_text",
]
