"""The paper's tables 2 to 5, from finished experiments: as Markdown, LaTeX and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from hedgerow.atomic_file import atomic_file

from .experiment import Experiment, Settings
from .paper import COLUMNS, DATA_SETS, EFFICIENCY, MISCLASSIFICATION, OUTSIDERS, PERFORMANCE

__all__ = ["Cell", "Table", "make_tables", "write_tables"]

TITLES = {
    "single": "Single model",
    "mc-dropout": "MC dropout",
    "boosting": "Boosting",
    "bagging": "Bagging",
    "boosted-bagging": "Boosted bagging",
}
SHORT = {
    "variance": "PV",
    "total": "TU",
    "knowledge": "KU",
    "energy": "Energy",
    "joint_energy": "JointEnergy",
}


@dataclass(frozen=True)
class Cell:
    """Means over seeds.

    Attributes
    ----------
    values : sequence of float
        One for each seed.
    digits : int
        How many to show after the point.
    best : bool
        Whether it is the best of its kind.
    """

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


@dataclass(frozen=True)
class Table:
    """A table of the paper.

    Attributes
    ----------
    id, title, caption : str
        The name in `tables.json`, the heading, and what it shows.
    header : sequence of str
        Titles of the columns; the first is that of the rows.
    rows : list of sequence of (str, Cell or None)
        None is what was not measured.
    """

    id: str
    title: str
    caption: str
    header: Sequence[str]
    rows: list[Sequence[str | Cell | None]] = field(default_factory=list)

    def to_markdown(self) -> str:
        """For pages."""
        lines = [f"## {self.title}", "", self.caption, ""]
        lines.append("| " + " | ".join(_markdown(title) for title in self.header) + " |")
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
            " & ".join(_latex(title) for title in self.header) + r" \\ \hline",
        ]
        lines += [" & ".join(_cell_latex(cell) for cell in row) + r" \\" for row in self.rows]
        lines += [
            r"\hline",
            r"\end{tabular}",
            rf"\caption{{{_latex(self.caption)}}}",
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


def write_tables(
    experiments: Sequence[Experiment], folder: Path, settings: Settings, machine: Mapping[str, Any]
) -> list[Table]:
    """Write tables.md, tables.tex and tables.json.

    Parameters
    ----------
    experiments : sequence of Experiment
        What was done.
    folder : Path
        Where to write.
    settings : Settings
        What was tried.
    machine : mapping
        Where it ran, for the record.

    Returns
    -------
    list of Table
    """
    tables = make_tables(experiments)
    about = _about(settings, machine)
    plain = {"settings": about} | {table.id: table.to_dict() for table in tables}
    pages = {
        "tables.md": "\n".join(["# Results\n", *_settings_lines(about), *(t.to_markdown() for t in tables)]),
        "tables.tex": "\n".join(table.to_latex() for table in tables),
        "tables.json": orjson.dumps(plain, option=orjson.OPT_INDENT_2).decode() + "\n",
    }
    for name, page in pages.items():
        with atomic_file(folder / name, overwrite=True) as file:
            file.write(page.encode())
    return tables


def make_tables(experiments: Sequence[Experiment]) -> list[Table]:
    """All tables that the experiments have something for."""
    found = _Found(experiments)
    tables = [
        _performance(found),
        _tail_performance(found),
        _misclassification(found),
        _errors_kept(found),
        _outsiders(found),
        _unfamiliarity(found),
        _outsiders_by_frequency(found),
        _efficiency(found),
        _calibration(found),
        _times(found),
    ]
    return [table for table in tables if table.rows]


class _Found:
    """Experiments by data set and method."""

    def __init__(self, experiments: Sequence[Experiment]) -> None:
        self.data = list(dict.fromkeys(e.data for e in experiments))
        self.methods = [m for m in TITLES if any(e.method == m for e in experiments)]
        self._runs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for e in experiments:
            self._runs.setdefault((e.data, e.method), []).append(e.found)

    def runs(self, data: str, method: str) -> list[Mapping[str, Any]]:
        return self._runs.get((data, method), [])

    def cell(self, data: str, method: str, *keys: str, scale: float = 100, digits: int = 2) -> Cell | None:
        """The value at a path of keys, over seeds; None where any lacks it."""
        values = []
        for run in self.runs(data, method):
            value: Any = run
            for key in keys:
                value = value.get(key) if isinstance(value, Mapping) else None
            if value is None:
                return None
            values.append(scale * float(value))
        return Cell(values, digits) if values else None

    def pairs(self) -> list[tuple[str, str]]:
        """Training data and outsiders."""
        return [
            (data, other)
            for data in self.data
            for other in dict.fromkeys(
                name for method in self.methods for run in self.runs(data, method) for name in run["ood"]
            )
        ]


def _performance(found: _Found) -> Table:
    keys = [("precision", k) for k in "135"] + [("recall", k) for k in "135"]
    table = Table(
        "performance",
        "Table 2: predictive performance",
        "P@k and R@k in percent, over test inputs that have labels; mean ± deviation over seeds.",
        ["", *(f"{name[0].upper()}@{k}" for name, k in keys)],
    )
    for data in found.data:
        table.rows.append([_title(data), *[""] * len(keys)])
        rows = [[found.cell(data, method, *key) for key in keys] for method in found.methods]
        for method, cells in zip(found.methods, _mark_best(rows), strict=True):
            table.rows.append([TITLES[method], *cells])
            if paper := PERFORMANCE.get(data.lower(), {}).get(method):
                table.rows.append([f"{TITLES[method]}, paper", *(f"{value:.2f}" for value in paper)])
    return table


def _tail_performance(found: _Found) -> Table:
    keys = [("ndcg", "3"), ("ndcg", "5"), ("psp", "1"), ("psp", "3"), ("psp", "5"), ("macro_f1", "5")]
    names = {"ndcg": "nDCG", "psp": "PSP", "macro_f1": "macro-F1"}
    table = Table(
        "tail",
        "Rank and tail",
        "nDCG, propensity-scored precision and macro-F1, and the share of true labels found among the best"
        " five: in the tenth of the labels that is rarest in training, in the fifth tenth and in the most"
        " frequent one; percent.",
        ["", *(f"{names[name]}@{k}" for name, k in keys), "found, rarest", "middle", "most frequent"],
    )
    for data in found.data:
        table.rows.append([_title(data), *[""] * (len(keys) + 3)])
        rows = []
        for method in found.methods:
            cells = [found.cell(data, method, *key) for key in keys]
            groups = [run.get("coverage") for run in found.runs(data, method)]
            for place in (0, 4, -1):
                whole = [100 * group["share"][place] for group in groups if group]
                cells.append(Cell(whole) if whole and len(whole) == len(groups) else None)
            rows.append(cells)
        for method, marked in zip(found.methods, _mark_best(rows), strict=True):
            table.rows.append([TITLES[method], *marked])
    return table


def _columns(found: _Found, first: str) -> list[tuple[str, str]]:
    columns = [(method, first if method == "single" else measure) for method, measure in COLUMNS]
    return [column for column in columns if column[0] in found.methods]


def _column_titles(columns: Iterable[tuple[str, str]]) -> list[str]:
    return [
        SHORT[measure] if method == "single" else f"{TITLES[method]} {SHORT[measure]}"
        for method, measure in columns
    ]


def _misclassification(found: _Found) -> Table:
    columns = _columns(found, "energy")
    table = Table(
        "misclassification",
        "Table 3: misclassification detection",
        "Mean AUROC over inputs, each over all labels, in percent. Energy is that of the single model; PV,"
        " TU and KU are variance, total and knowledge uncertainty.",
        ["", *_column_titles(columns)],
    )
    for data in found.data:
        cells = [found.cell(data, method, "misclassification", measure) for method, measure in columns]
        table.rows.append([_title(data), *_mark_best([cells], along=True)[0]])
        if paper := MISCLASSIFICATION.get(data.lower()):
            figures = dict(zip(COLUMNS, paper, strict=True))
            table.rows.append([f"{_title(data)}, paper", *(f"{figures[column]:.2f}" for column in columns)])
    return table


def _errors_kept(found: _Found) -> Table:
    columns = _columns(found, "energy")
    table = Table(
        "aupr_aurc",
        "Misclassification detection: AUPR and AURC",
        "AUPR: mean over inputs, percent, high is good. AURC: area under the curve of risk against coverage"
        " for the five best labels of each input, percent, low is good.",
        ["", *_column_titles(columns)],
    )
    for data in found.data:
        for key, title, low in (("misclassification_aupr", "AUPR", False), ("aurc", "AURC", True)):
            cells = [found.cell(data, method, key, measure) for method, measure in columns]
            table.rows.append([f"{_title(data)}, {title}", *_mark_best([cells], along=True, low=low)[0]])
    return table


def _outsiders(found: _Found) -> Table:
    columns = _columns(found, "joint_energy")
    ours = [(method, "unfamiliarity") for method in found.methods]
    table = Table(
        "ood",
        "Table 4: out-of-distribution detection",
        "AUROC in percent. The paper's scores are sums over labels, and an outsider gets low probabilities"
        " everywhere: here, low means outsider for all of them. Unfamiliarity is high for outsiders.",
        ["", *_column_titles(columns), *(f"unfamiliarity, {TITLES[method]}" for method, _ in ours)],
    )
    for data, other in found.pairs():
        cells = [found.cell(data, method, "ood", other, score) for method, score in [*columns, *ours]]
        table.rows.append([f"{_title(data)} → {_title(other)}", *_mark_best([cells], along=True)[0]])
        if paper := OUTSIDERS.get((data.lower(), other.lower())):
            figures = dict(zip(COLUMNS, paper, strict=True))
            row = [f"{figures[(m, 'energy' if m == 'single' else s)]:.2f}" for m, s in columns]
            table.rows.append([f"{_title(data)} → {_title(other)}, paper", *row, *[""] * len(ours)])
    return table


def _unfamiliarity(found: _Found) -> Table:
    method = "boosted-bagging" if "boosted-bagging" in found.methods else (found.methods or [""])[-1]
    scores = ("unfamiliarity", "variance", "total", "knowledge", "joint_energy", "expected")
    names = {**SHORT, "expected": "expected labels", "unfamiliarity": "unfamiliarity"}
    table = Table(
        "ood_details",
        "Out-of-distribution detection in detail",
        f"{TITLES.get(method, '')}: AUROC / AUPR / share of insiders flagged where 95 % of the outsiders are"
        " (FPR@95), percent.",
        ["", *(names[score] for score in scores)],
    )
    for data, other in found.pairs():
        row: list[str | Cell | None] = [f"{_title(data)} → {_title(other)}"]
        for score in scores:
            parts = [
                found.cell(data, method, "ood_details", other, score, part, digits=1)
                for part in ("auroc", "aupr", "fpr95")
            ]
            row.append(" / ".join(f"{part.mean:.1f}" for part in parts if part) or None)
        table.rows.append(row)
    return table


def _outsiders_by_frequency(found: _Found) -> Table:
    method = "boosted-bagging" if "boosted-bagging" in found.methods else (found.methods or [""])[-1]
    table = Table(
        "ood_by_frequency",
        "Outsiders against the tail",
        f"{TITLES.get(method, '')}: AUROC of unfamiliarity / of total uncertainty (low means outsider)"
        " against the inputs of each tenth, by the frequency of their most frequent label in training;"
        " percent.",
        ["", *(f"tenth {number}" for number in range(1, 11))],
    )
    for data, other in found.pairs():
        cells: list[str | Cell | None] = [f"{_title(data)} → {_title(other)}"]
        runs = found.runs(data, method)
        lists = {
            score: [run["ood_details"][other][score]["by_frequency"] for run in runs]
            for score in ("unfamiliarity", "total")
        }
        if not runs or not all(all(values) for values in lists.values()):
            continue
        means = {score: 100 * np.mean(values, axis=0) for score, values in lists.items()}
        cells += [
            f"{ours:.1f} / {total:.1f}"
            for ours, total in zip(means["unfamiliarity"], means["total"], strict=True)
        ]
        table.rows.append(cells)
    return table


def _efficiency(found: _Found) -> Table:
    table = Table(
        "efficiency",
        "Table 5: all labels against beam search",
        "Boosted bagging, seed 0: time for the inputs named (the best of three), how many times faster than"
        " the search through all labels, and AUROC of misclassification in percent. Candidates are all labels"
        " that the beam scored; a member that did not meet one gives it 0.",
        ["", "search", "time", "faster", "PV", "TU", "KU"],
    )
    for data in found.data:
        for run in found.runs(data, "boosted-bagging"):
            if "efficiency" not in run:
                continue
            exact, *beams = run["efficiency"]
            name = f"{_title(data)}, {run['efficiency_inputs']:,} inputs"
            for cost in (exact, *beams):
                search = "all labels" if cost["beam"] is None else f"beam {cost['beam']}"
                faster = exact["seconds"] / cost["seconds"]
                areas = [_percent(cost["auroc"][m]) for m in ("variance", "total", "knowledge")]
                table.rows.append([name, search, f"{cost['seconds']:.2f} s", f"{faster:.1f} x", *areas])
                name = ""
        if paper := EFFICIENCY.get(data.lower()):
            for way, search in (("exact", "all labels"), ("beam", "beam 50, top 100")):
                minutes, *figures = paper[way]
                faster = paper["exact"][0] / minutes
                areas = [f"{figure:.2f}" for figure in figures]
                table.rows.append(
                    [f"{_title(data)}, paper", search, f"{minutes:.2f} min", f"{faster:.1f} x", *areas]
                )
    return table


def _calibration(found: _Found) -> Table:
    table = Table(
        "calibration",
        "Are probabilities what they say?",
        "Expected calibration error of the best k labels, percent.",
        ["", "ECE@1", "ECE@3", "ECE@5"],
    )
    for data in found.data:
        table.rows.append([_title(data), "", "", ""])
        for method in found.methods:
            table.rows.append([TITLES[method], *(found.cell(data, method, "ece", k) for k in "135")])
    return table


def _times(found: _Found) -> Table:
    table = Table(
        "times",
        "Time",
        "Seconds to fit, to predict the test inputs with uncertainty, and to judge the predictions, as a"
        " share of the time to predict.",
        ["", "fit", "predict", "judge, % of predict"],
    )
    for data in found.data:
        table.rows.append([_title(data), "", "", ""])
        for method in found.methods:
            predict = found.cell(data, method, "seconds_by_step", "predict", scale=1, digits=1)
            judged = found.cell(data, method, "seconds_by_step", "judge", scale=1, digits=1)
            share = None
            if predict and judged:
                ratios = np.array(judged.values) / np.array(predict.values)
                share = Cell((100 * ratios).tolist(), 1)
            fitted = found.cell(data, method, "fit_seconds", scale=1, digits=1)
            table.rows.append([TITLES[method], fitted, predict, share])
    return table


def _percent(share: float | None) -> str | None:
    """None where no input had anything wrong."""
    return None if share is None else f"{100 * share:.2f}"


def _mark_best(
    rows: list[list[Cell | None]], along: bool = False, low: bool = False
) -> list[list[Cell | None]]:
    """Mark the best cell of each column, or of each row."""
    lines = rows if along else [list(column) for column in zip(*rows, strict=True)]
    marked = []
    for line in lines:
        means = [round(cell.mean, cell.digits) for cell in line if cell]
        best = (min(means) if low else max(means)) if means else None
        marked.append(
            [cell and Cell(cell.values, cell.digits, round(cell.mean, cell.digits) == best) for cell in line]
        )
    return marked if along else [list(row) for row in zip(*marked, strict=True)]


def _title(data: str) -> str:
    known = DATA_SETS.get(data.lower())
    return known.title if known else data


def _about(settings: Settings, machine: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "methods": list(settings.methods),
        "seeds": settings.seeds,
        "members": settings.members,
        "beam": settings.beam,
        "missing": settings.missing,
        "weight_threshold": settings.weight_threshold,
        "outsiders": settings.outsiders,
        "quick": settings.quick,
        "machine": dict(machine),
    }


def _settings_lines(about: Mapping[str, Any]) -> list[str]:
    machine = ", ".join(f"{name} {value}" for name, value in about["machine"].items())
    lines = [
        f"{about['members']} members, beam {about['beam']}, missing votes: {about['missing']}, weights below"
        f" {about['weight_threshold']} dropped, {about['seeds']} seeds, at most {about['outsiders']:,}"
        f" outsiders of a kind. {machine}.",
        "",
    ]
    if about["quick"]:
        lines += ["A quick run on some of the inputs: its figures are no results.", ""]
    return lines


def _cell_markdown(cell: str | Cell | None) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return _markdown(cell)
    return f"**{cell.text}**" if cell.best else cell.text


def _cell_latex(cell: str | Cell | None) -> str:
    if cell is None:
        return "--"
    if isinstance(cell, str):
        return _latex(cell)
    text = cell.text.replace("±", r"$\pm$")
    return rf"\textbf{{{text}}}" if cell.best else text


_LATEX: dict[str, str] = {
    "\\": r"\textbackslash{}",
    **{letter: "\\" + letter for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "→": r"$\rightarrow$",
    "±": r"$\pm$",
}


def _latex(text: str) -> str:
    r"""Names of data are no commands.

    Examples
    --------
    >>> _latex("a_b & 5 %")
    'a\\_b \\& 5 \\%'
    """
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _markdown(text: str) -> str:
    """Nor are they Markdown or HTML."""
    for letter in "\\|*_`[]":
        text = text.replace(letter, "\\" + letter)
    return text.replace("&", "&amp;").replace("<", "&lt;")
