"""The paper's tables 2 to 8, from finished experiments."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from hedgerow.storage.atomic_file import atomic_file

from .deep_models import OWN_ENCODERS, WORDS
from .experiment import Experiment, ExperimentSettings
from .findings import DEEP, LINEAR, TITLES, Findings
from .published import COLUMNS, DATA_SETS, DEEP_PERFORMANCE, DEEP_RIVALS, EFFICIENCY, OOD_DETECTION
from .table import Cell, Entry, Table, escape_markdown, mark_best

# Above a column there is less room.
_ABOVE = {WORDS: "Words alone", OWN_ENCODERS: "Encoder each"}
_SHORT = {
    "variance": "PV",
    "total": "TU",
    "knowledge": "KU",
    "energy": "Energy",
    "joint_energy": "JointEnergy",
    "expected": "expected labels",
    "ood": "OOD score",
}
_ABOUT = tomllib.loads(resources.files(__package__).joinpath("tables.toml").read_text(encoding="utf-8"))


def write_tables(
    experiments: Sequence[Experiment], folder: Path, settings: ExperimentSettings, machine: Mapping[str, Any]
) -> list[Table]:
    """Write tables.md, tables.tex and tables.json; `machine` is where they ran if they do not say so."""
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
    found = Findings(experiments, DEEP if deep else LINEAR)
    makers = (
        _performance,
        *((_rivals,) if deep else ()),
        _tail_performance,
        _misclassification,
        _errors_kept,
        _detection,
        _ood_scores,
        _ood_by_frequency,
        _efficiency,
        _calibration,
        _times,
    )
    tables = [make(found) for make in makers]
    return [table for table in tables if table.rows]


def _table(found: Findings, id: str, header: Sequence[str]) -> Table:
    """A table without rows, with what tables.toml says of it."""
    about = _ABOUT[id]
    deep = {} if found.paper.has_ood else about
    title = deep.get("deep_title", about["title"])
    caption = deep.get("deep_caption", about["caption"]).format(method=TITLES.get(found.strongest, ""))
    return Table(id, title, caption, header)


def _add_methods(
    table: Table, found: Findings, cells_of: Callable[[str, str], list[Cell | None]], best: bool = True
) -> Table:
    """Add for each data set a row with its name, one for each method, and those of the paper."""
    for data in found.data:
        table.rows.append([_title(data), *[""] * (len(table.header) - 1)])
        rows = [cells_of(data, method) for method in found.methods]
        for method, cells in zip(found.methods, mark_best(rows) if best else rows, strict=True):
            table.rows.append([TITLES[method], *cells])
            published = found.paper.accuracies.get(data.lower(), {}).get(method)
            if published and table.id == "performance":
                table.rows.append([f"{TITLES[method]}, paper", *_figures(published)])
    return table


def _performance(found: Findings) -> Table:
    keys = [("precision", k) for k in "135"] + [("recall", k) for k in "135"]
    table = _table(found, "performance", ["", *(f"{name[0].upper()}@{k}" for name, k in keys)])
    return _add_methods(table, found, lambda data, m: [found.cell(data, m, *key) for key in keys])


def _rivals(found: Findings) -> Table:
    """Models of others beside ours; a data set takes three columns, as in the paper."""
    table = _table(found, "rivals", ["", *(f"{_title(data)} P@{k}" for data in found.data for k in "135")])
    places = {data: 3 * number for number, data in enumerate(DEEP_PERFORMANCE)}

    def add_published(title: str, by_data: Iterable[Sequence[float] | None]) -> None:
        figures = list(by_data)
        if any(figures):
            cells = [cell for three in figures for cell in (_figures(three) if three else [None] * 3)]
            table.rows.append([f"{title}, paper", *cells])

    for name, all_figures in DEEP_RIVALS.items():
        starts = (places.get(data.lower()) for data in found.data)
        add_published(name, (None if s is None else all_figures[s : s + 3] for s in starts))
    ours = {
        WORDS: "XR-Linear (words alone)",
        "single": "XR-Transformer",
        "boosted-bagging": "XR-Transformer with boosted bagging",
        OWN_ENCODERS: "XR-Transformer with boosted bagging, an encoder each",
    }
    methods = [method for method in ours if method in found.methods]
    rows = [[found.cell(data, m, "precision", k) for data in found.data for k in "135"] for m in methods]
    for method, cells in zip(methods, mark_best(rows), strict=True):
        table.rows.append([ours[method], *cells])
        published = (DEEP_PERFORMANCE.get(data.lower(), {}).get(method) for data in found.data)
        add_published(ours[method], (of and of[:3] for of in published))
    return table


def _tail_performance(found: Findings) -> Table:
    keys = [("ndcg", "3"), ("ndcg", "5"), ("psp", "1"), ("psp", "3"), ("psp", "5"), ("macro_f1", "5")]
    names = {"ndcg": "nDCG", "psp": "PSP", "macro_f1": "macro-F1"}
    table = _table(
        found,
        "tail",
        ["", *(f"{names[name]}@{k}" for name, k in keys), "found, rarest", "middle", "most frequent"],
    )

    def cells_of(data: str, method: str) -> list[Cell | None]:
        cells = [found.cell(data, method, *key) for key in keys]
        groups = [run.get("coverage") for run in found.runs(data, method)]
        for part in (0.0, 0.5, 1.0):
            # Data with few labels have fewer than ten groups.
            shares = [
                100 * group["share"][int(part * (len(group["share"]) - 1))] for group in groups if group
            ]
            cells.append(Cell(shares) if shares and len(shares) == len(groups) else None)
        return cells

    return _add_methods(table, found, cells_of)


def _columns(found: Findings, first: str) -> list[tuple[str, str]]:
    columns = [(method, first if measure == "energy" else measure) for method, measure in found.paper.columns]
    return [column for column in columns if column[0] in found.methods]


def _column_titles(columns: Iterable[tuple[str, str]]) -> list[str]:
    return [
        _SHORT[measure] if method == "single" else f"{_ABOVE.get(method, TITLES[method])} {_SHORT[measure]}"
        for method, measure in columns
    ]


def _misclassification(found: Findings) -> Table:
    columns = _columns(found, "energy")
    table = _table(found, "misclassification", ["", *_column_titles(columns)])
    for data in found.data:
        cells = [found.cell(data, method, "misclassification", measure) for method, measure in columns]
        table.rows.append([_title(data), *mark_best([cells], along=True)[0]])
        if published := found.paper.areas.get(data.lower()):
            figures = dict(zip(found.paper.paper_columns, published, strict=True))
            row = [f"{figures[column]:.2f}" if column in figures else None for column in columns]
            table.rows.append([f"{_title(data)}, paper", *row])
    return table


def _errors_kept(found: Findings) -> Table:
    columns = _columns(found, "energy")
    table = _table(found, "aupr_aurc", ["", *_column_titles(columns)])
    for data in found.data:
        for key, title, low in (("misclassification_aupr", "AUPR", False), ("aurc", "AURC", True)):
            cells = [found.cell(data, method, key, measure) for method, measure in columns]
            table.rows.append([f"{_title(data)}, {title}", *mark_best([cells], along=True, low=low)[0]])
    return table


def _detection(found: Findings) -> Table:
    columns = _columns(found, "joint_energy")
    ours = [(method, "ood") for method in found.methods]
    table = _table(
        found, "ood", ["", *_column_titles(columns), *(f"OOD score, {TITLES[method]}" for method, _ in ours)]
    )
    for data, other in found.pairs():
        title = _pair_title(data, other)
        cells = [found.cell(data, method, "ood", other, score) for method, score in [*columns, *ours]]
        table.rows.append([title, *mark_best([cells], along=True)[0]])
        published = OOD_DETECTION.get((data.lower(), other.lower()))
        if published and found.paper.has_ood:
            figures = dict(zip(COLUMNS, published, strict=True))
            row = _figures(figures[(m, "energy" if m == "single" else s)] for m, s in columns)
            table.rows.append([f"{title}, paper", *row, *[""] * len(ours)])
    return table


def _ood_scores(found: Findings) -> Table:
    scores = ("ood", "variance", "total", "knowledge", "joint_energy", "expected")
    table = _table(found, "ood_details", ["", *(_SHORT[score] for score in scores)])
    for data, other in found.pairs():
        row: list[Entry] = [_pair_title(data, other)]
        for score in scores:
            parts = [
                found.cell(data, found.strongest, "ood_details", other, score, part)
                for part in ("auroc", "aupr", "fpr95")
            ]
            row.append(" / ".join(f"{part.mean:.1f}" for part in parts if part) or None)
        table.rows.append(row)
    return table


def _ood_by_frequency(found: Findings) -> Table:
    table = _table(found, "ood_by_frequency", ["", *(f"tenth {number}" for number in range(1, 11))])
    for data, other in found.pairs():
        runs = found.runs(data, found.strongest)
        by_score = [
            # From too few inputs nothing is learned about what is in distribution.
            [run["ood_details"][other].get(score, {}).get("by_frequency", []) for run in runs]
            for score in ("ood", "total")
        ]
        if runs and all(all(tenths) for tenths in by_score):
            means = (100 * np.mean(tenths, axis=0) for tenths in by_score)
            cells = [f"{ours:.1f} / {total:.1f}" for ours, total in zip(*means, strict=True)]
            table.rows.append([_pair_title(data, other), *cells])
    return table


def _efficiency(found: Findings) -> Table:
    table = _table(found, "efficiency", ["", "search", "time", "faster", "PV", "TU", "KU"])
    for data in found.data:
        for run in found.runs(data, "boosted-bagging"):
            costs = run.get("efficiency", [])
            for number, cost in enumerate(costs):
                name = "" if number else f"{_title(data)}, {run['efficiency_inputs']:,} inputs"
                search = "all labels" if cost["beam"] is None else f"beam {cost['beam']}"
                faster = costs[0]["seconds"] / cost["seconds"]
                areas = [_percent(cost["auroc"][m]) for m in ("variance", "total", "knowledge")]
                table.rows.append([name, search, f"{cost['seconds']:.2f} s", f"{faster:.1f} x", *areas])
        published = EFFICIENCY.get(data.lower())
        if published and found.paper.has_ood:
            for way, search in (("exact", "all labels"), ("beam", "beam 50, top 100")):
                minutes, *figures = published[way]
                faster = published["exact"][0] / minutes
                time = f"{minutes:.2f} min"
                table.rows.append(
                    [f"{_title(data)}, paper", search, time, f"{faster:.1f} x", *_figures(figures)]
                )
    return table


def _calibration(found: Findings) -> Table:
    table = _table(found, "calibration", ["", "ECE@1", "ECE@3", "ECE@5"])
    return _add_methods(table, found, lambda data, m: [found.cell(data, m, "ece", k) for k in "135"], False)


def _times(found: Findings) -> Table:
    table = _table(found, "times", ["", "fit", "predict", "judge, % of predict"])

    def cells_of(data: str, method: str) -> list[Cell | None]:
        fit, predict, judge = (
            found.cell(data, method, *keys, scale=1, digits=1)
            for keys in (("fit_seconds",), ("seconds_by_step", "predict"), ("seconds_by_step", "judge"))
        )
        share = None
        if predict and judge:
            share = Cell((100 * (np.array(judge.values) / np.array(predict.values))).tolist(), 1)
        return [fit, predict, share]

    _add_methods(table, found, cells_of, False)
    for data in found.data:
        if tuning := found.cell(data, "single", "fine_tuning", "seconds", scale=1, digits=1):
            below = [row[0] for row in table.rows].index(_title(data)) + 1
            table.rows.insert(below, ["Fine-tuning", tuning, None, None])
    return table


def _figures(values: Iterable[float]) -> list[str]:
    """Figures of the paper, which has no deviations."""
    return [f"{value:.2f}" for value in values]


def _percent(share: float | None) -> str | None:
    """None where no input had anything wrong."""
    return None if share is None else f"{100 * share:.2f}"


def _title(data: str) -> str:
    known = DATA_SETS.get(data.lower())
    return known.title if known else data


def _pair_title(data: str, other: str) -> str:
    return f"{_title(data)} → {_title(other)}"


def _machines(experiments: Sequence[Experiment]) -> dict[str, str]:
    """Where experiments ran that note it: files may come from several machines."""
    noted: dict[str, dict[str, None]] = {}
    for experiment in experiments:
        for name, value in experiment.found.get("machine", {}).items():
            noted.setdefault(name, {})[value] = None
    return {name: " and ".join(values) for name, values in noted.items()}


def _about(settings: ExperimentSettings, machine: Mapping[str, Any]) -> dict[str, Any]:
    own = {**vars(settings), "methods": list(settings.methods), "machine": dict(machine)}
    deep = own.pop("deep")
    return own if deep is None else {**own, "transformer": {**deep.mark(), "name": Path(deep.encoder).name}}


def _settings_lines(about: Mapping[str, Any]) -> list[str]:
    machine = ", ".join(f"{name} {value}" for name, value in about["machine"].items())
    lines = [
        f"{about['members']} members, beam {about['beam']}, missing votes: {about['missing']}, weights below"
        f" {about['weight_threshold']} dropped, {about['seeds']} seeds, at most {about['ood_rows']:,}"
        f" out-of-distribution inputs per data set. {machine}.",
        "",
    ]
    if deep := about.get("transformer"):
        unit, count = ("epoch", deep["epochs"]) if deep["steps"] is None else ("step", deep["steps"])
        length = f"{count:g} {unit}" + "s" * (count != 1)
        lines += [
            f"Encoder {escape_markdown(deep['name'])}, {length} per level, batches of {deep['batch_size']},"
            f" learning rate {deep['learning_rate']:g}, at most {deep['max_length']} tokens; all methods of a"
            " seed share one fine-tuned encoder unless stated otherwise. MC dropout is that of the encoder.",
            "",
        ]
    if about["quick"]:
        lines += ["A quick run on some of the inputs: do not take these figures for results.", ""]
    return lines
