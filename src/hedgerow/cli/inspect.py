"""``hedgerow inspect``."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from .failures import ExitCode, failing_as
from .fit_summary import why_no_judge
from .options import AsJson, ModelFile
from .terminal import cell, print_json

if TYPE_CHECKING:
    from hedgerow.storage.container import ModelFile as File


_COLUMNS = 7  # of a table that fits a terminal


def inspect(model: ModelFile, json: AsJson = False) -> None:
    """Check a model file and show what is in it.

    \b
    Examples:
      hedgerow inspect tags.hedgerow
      hedgerow inspect tags.hedgerow --json | jq .parameters
    """  # noqa: D301
    from hedgerow.storage.container import ModelFileError, read_model

    from .inputs import load_model

    with failing_as(ExitCode.MODEL, ModelFileError):
        file = read_model(model)
    description: dict[str, Any] = load_model(model).describe()
    if json:
        print_json({**_about_file(file), **description})
    else:
        _print(file, description)


def _about_file(file: File) -> dict[str, Any]:
    return {
        "file": file.path,
        "format_version": file.version,
        "written_by": file.writer,
        "bytes": file.size,
        "sections": {
            name: {"dtype": str(section.dtype), "shape": list(section.shape), "bytes": section.nbytes}
            for name, section in file.sections.items()
        },
    }


def _print(file: File, description: dict[str, Any]) -> None:
    console = Console(highlight=False)
    console.print(cell(file.path, "bold"))
    description = dict(description)
    why = description.pop("no_judge")
    if why is not None:
        description["judge"] = why_no_judge(why)
    elif description["judge"] is None:
        description["judge"] = "none; the file does not say why"
    facts = _facts(
        {
            "format": f"hedgerow {file.version}, written by hedgerow {file.writer}, all checksums match",
            "size": decimal(file.size),
            **{
                key: value for key, value in description.items() if not isinstance(value, (dict, list, tuple))
            },
        }
    )
    console.print(facts)
    for key, value in description.items():
        if isinstance(value, dict):
            console.print(cell(f"\N{BULLET} {key}", "bold"))
            console.print(_facts(value))
        elif isinstance(value, (list, tuple)) and value and all(isinstance(item, dict) for item in value):
            console.print(cell(f"\N{BULLET} {key}", "bold"))
            if max(map(len, value)) > _COLUMNS:
                for record in value:
                    console.print(_facts(record), "")
            else:
                console.print(_records(list(value)))
        elif isinstance(value, (list, tuple)):
            console.print(cell(f"\N{BULLET} {key}:", "bold"), cell(", ".join(map(_shown, value))))
    console.print(cell("\N{BULLET} sections of the file", "bold"))
    console.print(
        _records(
            [
                {"section": name, "type": section.dtype, "shape": section.shape, "bytes": section.nbytes}
                for name, section in file.sections.items()
            ]
        )
    )


def _shown(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, Integral):
        return f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"{int(value):,}"


def _facts(facts: dict[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2))
    for key, value in facts.items():
        table.add_row(cell(f"  {key}", "dim"), cell(_shown(value)))
    return table


def _records(records: list[dict[str, Any]]) -> Table:
    names = list(dict.fromkeys(name for record in records for name in record))
    table = Table(box=None, padding=(0, 1), pad_edge=True)
    for name in names:
        numbers = all(isinstance(record.get(name, 0), Integral) for record in records)
        table.add_column(cell(name, "dim"), justify="right" if numbers else "left")
    for record in records:
        table.add_row(*(cell(_shown(record[name]) if name in record else "") for name in names))
    return table
