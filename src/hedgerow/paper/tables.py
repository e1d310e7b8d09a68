"""The paper's tables 2 to 8, from finished experiments: as Markdown, LaTeX and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from hedgerow.storage.atomic_file import atomic_file

from .deep_models import OWN_ENCODERS, WORDS
from .experiment import Experiment, Settings
from .published import (
    COLUMNS,
    DATA_SETS,
    DEEP_COLUMNS,
    DEEP_MISCLASSIFICATION,
    DEEP_PERFORMANCE,
    DEEP_RIVALS,
    EFFICIENCY,
    MISCLASSIFICATION,
    OUTSIDERS,
    PERFORMANCE,
)

__all__ = ["Cell", "Table", "make_tables", "write_tables"]

TITLES = {
    WORDS: "Words alone, single model",
    "single": "Single model",
    "mc-dropout": "MC dropout",
    "boosting": "Boosting",
    "bagging": "Bagging",
    "boosted-bagging": "Boosted bagging",
    OWN_ENCODERS: "Boosted bagging, an encoder each",
}
# Above a column there is less room.
_ABOVE = {WORDS: "Words alone", OWN_ENCODERS: "Encoder each"}
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
    tables = make_tables(experiments, deep=settings.deep is not None)
    about = _about(settings, _machines(experiments) or machine)
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


def make_tables(experiments: Sequence[Experiment], deep: bool = False) -> list[Table]:
    """All tables that the experiments have something for; `deep` ones have a transformer."""
    found = _Found(experiments, _DEEP if deep else _LINEAR)
    tables = [
        _performance(found),
        *([_rivals(found)] if deep else []),
        _tail_performance(found),
        _misclassification(found),
        _errors_kept(found),
        _detection(found),
        _ood_scores(found),
        _ood_by_frequency(found),
        _efficiency(found),
        _calibration(found),
        _times(found),
    ]
    return [table for table in tables if table.rows]


@dataclass(frozen=True)
class _Paper:
    """What the paper has of a base model: titles of tables, and figures by data set."""

    performance: str
    misclassification: str
    accuracies: Mapping[str, Mapping[str, Sequence[float]]]
    columns: Sequence[tuple[str, str]]  # methods and measures that find wrong labels
    paper_columns: Sequence[tuple[str, str]]  # those among them that the paper has
    areas: Mapping[str, Sequence[float]]
    has_ood: bool


_LINEAR = _Paper(
    "Table 2: predictive performance",
    "Table 3: misclassification detection",
    PERFORMANCE,
    COLUMNS,
    COLUMNS,
    MISCLASSIFICATION,
    True,
)
_DEEP = _Paper(
    "Table 6: predictive performance of XR-Transformer",
    "Table 7: misclassification detection with XR-Transformer",
    DEEP_PERFORMANCE,
    [(WORDS, "energy"), *COLUMNS, *((OWN_ENCODERS, m) for m in ("variance", "total", "knowledge"))],
    DEEP_COLUMNS,
    DEEP_MISCLASSIFICATION,
    False,
)


class _Found:
    """Experiments by data set and method."""

    def __init__(self, experiments: Sequence[Experiment], paper: _Paper) -> None:
        self.paper = paper
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
        """Training data and out-of-distribution inputs."""
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
        found.paper.performance,
        "P@k and R@k in percent, over test inputs that have labels; mean ± deviation over seeds.",
        ["", *(f"{name[0].upper()}@{k}" for name, k in keys)],
    )
    for data in found.data:
        table.rows.append([_title(data), *[""] * len(keys)])
        rows = [[found.cell(data, method, *key) for key in keys] for method in found.methods]
        for method, cells in zip(found.methods, _mark_best(rows), strict=True):
            table.rows.append([TITLES[method], *cells])
            if paper := found.paper.accuracies.get(data.lower(), {}).get(method):
                table.rows.append([f"{TITLES[method]}, paper", *(f"{value:.2f}" for value in paper)])
    return table


def _rivals(found: _Found) -> Table:
    """Models of others beside ours; a data set takes three columns, as in the paper."""
    table = Table(
        "rivals",
        "Table 8: beside other models",
        "P@1, P@3 and P@5 in percent. What the paper cites of others is there for its own data sets.",
        ["", *(f"{_title(data)} P@{k}" for data in found.data for k in "135")],
    )
    places = {data: 3 * number for number, data in enumerate(DEEP_PERFORMANCE)}
    known = [places.get(data.lower()) for data in found.data]
    nothing: list[str | Cell | None] = [None] * 3
    if any(place is not None for place in known):
        for name, figures in DEEP_RIVALS.items():
            cells = [
                cell
                for place in known
                for cell in (nothing if place is None else [f"{v:.2f}" for v in figures[place : place + 3]])
            ]
            table.rows.append([f"{name}, paper", *cells])
    ours = {
        WORDS: "XR-Linear (words alone)",
        "single": "XR-Transformer",
        "boosted-bagging": "XR-Transformer with boosted bagging",
        OWN_ENCODERS: "XR-Transformer with boosted bagging, an encoder each",
    }
    methods = [method for method in ours if method in found.methods]
    rows = [
        [found.cell(data, method, "precision", k) for data in found.data for k in "135"] for method in methods
    ]
    for method, marked in zip(methods, _mark_best(rows) if rows else [], strict=True):
        table.rows.append([ours[method], *marked])
        paper = [DEEP_PERFORMANCE.get(data.lower(), {}).get(method) for data in found.data]
        if any(paper):
            cells = [c for of in paper for c in ([f"{v:.2f}" for v in of[:3]] if of else nothing)]
            table.rows.append([f"{ours[method]}, paper", *cells])
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
            for part in (0.0, 0.5, 1.0):
                # Data with few labels have fewer than ten groups.
                whole = [
                    100 * group["share"][int(part * (len(group["share"]) - 1))] for group in groups if group
                ]
                cells.append(Cell(whole) if whole and len(whole) == len(groups) else None)
            rows.append(cells)
        for method, marked in zip(found.methods, _mark_best(rows), strict=True):
            table.rows.append([TITLES[method], *marked])
    return table


def _columns(found: _Found, first: str) -> list[tuple[str, str]]:
    columns = [(method, first if measure == "energy" else measure) for method, measure in found.paper.columns]
    return [column for column in columns if column[0] in found.methods]


def _column_titles(columns: Iterable[tuple[str, str]]) -> list[str]:
    return [
        SHORT[measure] if method == "single" else f"{_ABOVE.get(method, TITLES[method])} {SHORT[measure]}"
        for method, measure in columns
    ]


def _misclassification(found: _Found) -> Table:
    columns = _columns(found, "energy")
    table = Table(
        "misclassification",
        found.paper.misclassification,
        "Mean AUROC over inputs, each over all labels, in percent. Energy is that of the single model; PV,"
        " TU and KU are variance, total and knowledge uncertainty.",
        ["", *_column_titles(columns)],
    )
    for data in found.data:
        cells = [found.cell(data, method, "misclassification", measure) for method, measure in columns]
        table.rows.append([_title(data), *_mark_best([cells], along=True)[0]])
        if paper := found.paper.areas.get(data.lower()):
            figures = dict(zip(found.paper.paper_columns, paper, strict=True))
            row = [f"{figures[column]:.2f}" if column in figures else None for column in columns]
            table.rows.append([f"{_title(data)}, paper", *row])
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


def _detection(found: _Found) -> Table:
    columns = _columns(found, "joint_energy")
    ours = [(method, "ood") for method in found.methods]
    table = Table(
        "ood",
        f"{'Table 4: o' if found.paper.has_ood else 'O'}ut-of-distribution detection",
        "AUROC in percent. The paper's scores are sums over labels, and an out-of-distribution input"
        " gets low probabilities"
        " everywhere: here, low means out-of-distribution input for all of them. OOD score is high"
        " for out-of-distribution inputs.",
        ["", *_column_titles(columns), *(f"OOD score, {TITLES[method]}" for method, _ in ours)],
    )
    for data, other in found.pairs():
        cells = [found.cell(data, method, "ood", other, score) for method, score in [*columns, *ours]]
        table.rows.append([f"{_title(data)} → {_title(other)}", *_mark_best([cells], along=True)[0]])
        paper = OUTSIDERS.get((data.lower(), other.lower()))
        if paper and found.paper.has_ood:
            figures = dict(zip(COLUMNS, paper, strict=True))
            row = [f"{figures[(m, 'energy' if m == 'single' else s)]:.2f}" for m, s in columns]
            table.rows.append([f"{_title(data)} → {_title(other)}, paper", *row, *[""] * len(ours)])
    return table


def _ood_scores(found: _Found) -> Table:
    method = "boosted-bagging" if "boosted-bagging" in found.methods else (found.methods or [""])[-1]
    scores = ("ood", "variance", "total", "knowledge", "joint_energy", "expected")
    names = {**SHORT, "expected": "expected labels", "ood": "OOD score"}
    table = Table(
        "ood_details",
        "Out-of-distribution detection in detail",
        f"{TITLES.get(method, '')}: AUROC / AUPR / share of insiders flagged where 95 % of the"
        f" out-of-distribution inputs are"
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


def _ood_by_frequency(found: _Found) -> Table:
    method = "boosted-bagging" if "boosted-bagging" in found.methods else (found.methods or [""])[-1]
    table = Table(
        "ood_by_frequency",
        "Out-of-distribution inputs against the tail",
        f"{TITLES.get(method, '')}: AUROC of OOD score / of total uncertainty (low means"
        f" out-of-distribution input)"
        " against the inputs of each tenth, by the frequency of their most frequent label in training;"
        " percent.",
        ["", *(f"tenth {number}" for number in range(1, 11))],
    )
    for data, other in found.pairs():
        cells: list[str | Cell | None] = [f"{_title(data)} → {_title(other)}"]
        runs = found.runs(data, method)
        lists = {
            # Too few inputs tell nothing of what is familiar.
            score: [run["ood_details"][other].get(score, {}).get("by_frequency", []) for run in runs]
            for score in ("ood", "total")
        }
        if not runs or not all(all(values) for values in lists.values()):
            continue
        means = {score: 100 * np.mean(values, axis=0) for score, values in lists.items()}
        cells += [
            f"{ours:.1f} / {total:.1f}" for ours, total in zip(means["ood"], means["total"], strict=True)
        ]
        table.rows.append(cells)
    return table


def _efficiency(found: _Found) -> Table:
    table = Table(
        "efficiency",
        f"{'Table 5: a' if found.paper.has_ood else 'A'}ll labels against beam search",
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
        paper = EFFICIENCY.get(data.lower())
        if paper and found.paper.has_ood:
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
        " share of the time to predict."
        + ("" if found.paper.has_ood else " Fine-tuning comes first, once for all methods of a seed."),
        ["", "fit", "predict", "judge, % of predict"],
    )
    for data in found.data:
        table.rows.append([_title(data), "", "", ""])
        if tuning := found.cell(data, "single", "fine_tuning", "seconds", scale=1, digits=1):
            table.rows.append(["Fine-tuning", tuning, None, None])
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


def _machines(experiments: Sequence[Experiment]) -> dict[str, str]:
    """Where experiments ran that tell it: files may come from several machines."""
    told: dict[str, dict[str, None]] = {}
    for experiment in experiments:
        for name, value in experiment.found.get("machine", {}).items():
            told.setdefault(name, {})[value] = None
    return {name: " and ".join(values) for name, values in told.items()}


def _about(settings: Settings, machine: Mapping[str, Any]) -> dict[str, Any]:
    about = _plain(settings, machine)
    if settings.deep is not None:
        about["transformer"] = {**settings.deep.mark(), "name": Path(settings.deep.encoder).name}
    return about


def _plain(settings: Settings, machine: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "methods": list(settings.methods),
        "seeds": settings.seeds,
        "members": settings.members,
        "beam": settings.beam,
        "missing": settings.missing,
        "weight_threshold": settings.weight_threshold,
        "ood_rows": settings.ood_rows,
        "quick": settings.quick,
        "machine": dict(machine),
    }


def _settings_lines(about: Mapping[str, Any]) -> list[str]:
    machine = ", ".join(f"{name} {value}" for name, value in about["machine"].items())
    lines = [
        f"{about['members']} members, beam {about['beam']}, missing votes: {about['missing']}, weights below"
        f" {about['weight_threshold']} dropped, {about['seeds']} seeds, at most {about['ood_rows']:,}"
        f" out-of-distribution inputs of a kind. {machine}.",
        "",
    ]
    if deep := about.get("transformer"):
        unit, count = ("epoch", deep["epochs"]) if deep["steps"] is None else ("step", deep["steps"])
        length = f"{count:g} {unit}" + "s" * (count != 1)
        lines += [
            f"Encoder {_markdown(deep['name'])}, {length} a level, batches of {deep['batch_size']}, rate"
            f" {deep['learning_rate']:g}, at most {deep['max_length']} tokens; all methods of a seed share"
            " one fine-tuned encoder unless told otherwise. MC dropout is that of the encoder.",
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
