"""A table of results: figures with their deviations, as Markdown, LaTeX and plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

_LATEX = {
    "\\": r"\textbackslash{}",
    **{letter: "\\" + letter for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "→": r"$\rightarrow$",
    "±": r"$\pm$",
}


@dataclass(frozen=True)
class Cell:
    """A figure for each seed; shown are their mean and deviation, and whether it is the best of its kind."""

    values: Sequence[float]
    digits: int = 2
    best: bool = False

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return float(np.mean(self.values))

    @property
    def text(self) -> str:
        """As people read it."""
        text = f"{self.mean:.{self.digits}f}"
        if len(self.values) > 1:
            text += f" ± {np.std(self.values, ddof=1):.{self.digits}f}"
        return text


Entry = str | Cell | None
"""What stands in a table; None is what was not measured."""


@dataclass(frozen=True)
class Table:
    """A table: its name in `tables.json`, heading, caption, titles of the columns, and rows with titles."""

    id: str
    title: str
    caption: str
    header: Sequence[str]
    rows: list[Sequence[Entry]] = field(default_factory=list)

    def to_markdown(self) -> str:
        """For pages."""
        lines = [f"## {self.title}", "", self.caption, ""]
        lines.append("| " + " | ".join(escape_markdown(title) for title in self.header) + " |")
        lines.append("|" + "---|" * len(self.header))
        lines += ["| " + " | ".join(_cell_markdown(cell) for cell in row) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"

    def to_latex(self) -> str:
        """For papers."""
        lines = [
            r"\begin{table}",
            r"\centering",
            r"\begin{tabular}{l" + "r" * (len(self.header) - 1) + "}",
            r"\hline",
            " & ".join(_escape_latex(title) for title in self.header) + r" \\ \hline",
            *(" & ".join(_cell_latex(cell) for cell in row) + r" \\" for row in self.rows),
            r"\hline",
            r"\end{tabular}",
            rf"\caption{{{_escape_latex(self.caption)}}}",
            rf"\label{{table:{self.id}}}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        rows = [
            [
                {"mean": cell.mean, "values": list(cell.values)} if isinstance(cell, Cell) else cell
                for cell in row
            ]
            for row in self.rows
        ]
        return {"title": self.title, "caption": self.caption, "header": list(self.header), "rows": rows}


def mark_best(
    rows: list[list[Cell | None]], along: bool = False, low: bool = False
) -> list[list[Cell | None]]:
    """Mark the best cell of each column, or of each row."""
    if not along:
        columns = [list(column) for column in zip(*rows, strict=True)]
        return [list(row) for row in zip(*mark_best(columns, True, low), strict=True)]
    choose = min if low else max
    marked = []
    for row in rows:
        best = choose((round(cell.mean, cell.digits) for cell in row if cell), default=None)
        marked.append([cell and replace(cell, best=round(cell.mean, cell.digits) == best) for cell in row])
    return marked


def _cell_markdown(cell: Entry) -> str:
    if isinstance(cell, Cell):
        return f"**{cell.text}**" if cell.best else cell.text
    return "-" if cell is None else escape_markdown(cell)


def _cell_latex(cell: Entry) -> str:
    if isinstance(cell, Cell):
        text = _escape_latex(cell.text)
        return rf"\textbf{{{text}}}" if cell.best else text
    return "--" if cell is None else _escape_latex(cell)


def _escape_latex(text: str) -> str:
    r"""Names of data sets must not become commands.

    Examples
    --------
    >>> _escape_latex("a_b & 5 %")
    'a\\_b \\& 5 \\%'
    """
    return "".join(_LATEX.get(letter, letter) for letter in text)


def escape_markdown(text: str) -> str:
    """Names of data sets must not become Markdown or HTML."""
    for letter in "\\|*_`[]":
        text = text.replace(letter, "\\" + letter)
    return text.replace("&", "&amp;").replace("<", "&lt;")
