"""``hedgerow evaluate --over-time``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal

import hedgerow.cli.options as options

from .failures import ExitCode, Failure, failing_as
from .options import expert_share, given, share_option, values_of
from .over_time_table import print_over_time
from .settings_file import TunedSettings, read_settings
from .targets import check_new_file
from .terminal import Report, print_json, say, show_progress
from .text_settings import text_settings

if TYPE_CHECKING:
    from hedgerow import HedgerowClassifier
    from hedgerow.chronology import JudgedPeriod, OverTime, Plan
    from hedgerow.data import Part

    from .inputs import Selection


@dataclass(frozen=True)
class _Wanted:
    """Which models are trained: a preset, or tuned settings, and what was given besides."""

    preset: str
    tuned: TunedSettings | None
    settings: dict[str, Any]
    texts: dict[str, Any]
    given: frozenset[str]
    threads: int

    def describe(self) -> dict[str, Any]:
        """What decides how models come out."""
        return {"preset": self.preset, "settings": self.settings, "texts": self.texts}

    def make(self, texts: Any, Y: Any) -> HedgerowClassifier:
        """A classifier for these records, not fitted yet."""
        from hedgerow import HedgerowTextClassifier
        from hedgerow.data import Part

        from .presets import Request, choose

        settings, words = self.settings, self.texts
        if self.tuned is None:
            request = Request(self.preset, None, settings, words, self.given, self.threads)
            chosen = choose(Part(texts=texts, Y=Y), request)
            settings, words = chosen.settings, chosen.texts or {}
        return HedgerowTextClassifier(**settings, **words, n_jobs=self.threads or -1)


def over_time(
    context: typer.Context,
    data: Annotated[
        list[Path],
        typer.Argument(help="Records with labels and times: .jsonl, .csv or .parquet.", metavar="DATA"),
    ],
    text_field: options.TextFields,
    time_field: options.TimeField = None,
    periods: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help="Cut into N periods of about equal size; the first one is only learned from. Default: 6.",
        ),
    ] = None,
    period: Annotated[
        options.Unit | None, typer.Option(help="In place of --periods: cut by the calendar.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Judge from this time on; all periods that end before are the first past."
        ),
    ] = None,
    until: options.Until = None,
    strategy: Annotated[
        list[options.Strategies] | None,
        typer.Option(
            help="What becomes of a model when a period is over: it stays (never-updated), its calibration"
            " and thresholds are learned from the newest records (calibrated-again), it learns the new"
            " records as by hedgerow update (updated), or it is fitted to all records so far"
            " (fitted-again). Repeat it for more. Default: all.",
            show_default=False,
        ),
    ] = None,
    wrong_at_most: Annotated[
        float, share_option("Guarantee that at most this share of the accepted labels is wrong.")
    ] = 0.1,
    wrong_of: Annotated[
        options.WrongOf,
        typer.Option(help="What that is a share of, as of hedgerow decide."),
    ] = options.WrongOf.labels,
    missed_at_most: Annotated[
        float,
        share_option(
            "Guarantee that at most this share of an input's right labels that the model knows is missed."
        ),
    ] = 0.2,
    held_out: Annotated[
        float,
        expert_share("The share of each past, its end, that calibrates the model and is not trained on."),
    ] = 0.2,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a web page with pictures to this file.")
    ] = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write all figures to this file; - prints them.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Keep periods that are finished in this folder; the same command continues from there.",
        ),
    ] = None,
    part: options.PartName = None,
    labels_field: options.LabelsField = "labels",
    method: options.MethodOption = options.Method.single,
    members: options.Members = 10,
    preset: Annotated[options.Preset | None, options.preset_option()] = None,
    settings_file: options.SettingsFile = None,
    seed: options.Seed = 0,
    threads: options.Threads = 0,
    overwrite: options.Overwrite = False,
    verbose: options.Verbose = False,
    language: options.LanguageOption = None,
    analyzer: options.AnalyzerOption = options.Words.word,
    ngrams: options.Ngrams = 2,
    char_ngrams: options.CharNgrams = "3-5",
    min_count: options.MinCount = 2,
    max_features: options.MaxFeatures = None,
    sublinear: options.Sublinear = True,
) -> None:
    """Train on the past of DATA, judge on each later period.

    Records are put in order by --time-field and cut into periods. Before each period but the first, every
    strategy gives the model that it would have had then: it learns only from what came before, and the end
    of that calibrates the model and sets the thresholds of its guarantees. The table says how good the model
    is in the period, how many right labels it was never trained on, how many inputs are out-of-distribution
    (OOD), and whether the guarantees were kept.

    To train the model of one such past yourself: hedgerow fit DATA MODEL --time-field year --until 2020.

    \b
    Examples:
      hedgerow evaluate --over-time records.jsonl --time-field year
      hedgerow evaluate --over-time records.jsonl --time-field date --period year --start 2015 --out time.html
      hedgerow evaluate --over-time old.jsonl new.jsonl --time-field date --preset fast --checkpoint periods/
    """  # noqa: D301
    if time_field is None:
        raise typer.BadParameter("name the field that says when a record is from", param_hint="--time-field")
    if period is not None and periods is not None:
        raise typer.BadParameter("give --periods or --period, not both", param_hint="--period")
    if out is not None:
        check_new_file(out, overwrite)
    if json not in (None, "-"):
        check_new_file(str(json), overwrite)
    import orjson

    from hedgerow.chronology import Plan, Strategy
    from hedgerow.report import render
    from hedgerow.report.over_time import compose_over_time
    from hedgerow.storage.atomic_file import atomic_file

    from .inputs import Selection, sources

    wanted = _wanted(context)
    plan = Plan(
        periods=periods or Plan.periods,
        unit=None if period is None else period.value,
        start=start,
        strategies=tuple(Strategy(one.value) for one in strategy or options.Strategies),
        wrong_at_most=wrong_at_most,
        wrong_of=wrong_of.value,
        missed_at_most=missed_at_most,
        held_out=held_out,
        seed=seed,
    )
    fields = sources(wanted.texts["fields"])
    with show_progress(verbose, whole=True) as report:
        records = _read(
            [
                Selection(path, part, labels_field, threads, fields, time_field=time_field, until=until)
                for path in data
            ],
            report,
        )
        found = _run(wanted, records, plan, _Kept(checkpoint), report, context)
    figures = found.to_dict() | {"data": [str(path) for path in data], "model": wanted.describe()}
    if out is not None:
        title = f"Over time: {', '.join(path.name for path in data)}"
        page = render(compose_over_time(found, title)).encode()
        with failing_as(ExitCode.WRITE), atomic_file(out, overwrite=overwrite) as file:
            file.write(page)
    if json == "-":
        print_json(figures)
        return
    if json is not None:
        with failing_as(ExitCode.WRITE), atomic_file(json, overwrite=overwrite) as file:
            file.write(orjson.dumps(figures, option=orjson.OPT_INDENT_2) + b"\n")
    print_over_time(found)
    if out is not None:
        say(f"Written {out} ({decimal(len(page))}); open it in a browser.")


def _wanted(context: typer.Context) -> _Wanted:
    """The models that the command line asks for."""
    from hedgerow import HedgerowTextClassifier

    path = context.params["settings_file"]
    tuned = None if path is None else read_settings(context, path)
    own = {"n_jobs", *options.TEXTS}
    settings = {name: of for name, of in HedgerowTextClassifier().get_params().items() if name not in own}
    settings |= values_of(context, ("method", "members")) | {"random_state": context.params["seed"]}
    texts = text_settings(context)
    renamed = {"seed": "random_state", "text_field": "fields"}
    asked = {renamed.get(name, name) for name in given(context)}
    if tuned is not None:
        tuned.check_estimator(HedgerowTextClassifier, context.params["data"][0])
        settings, texts = tuned.merge(settings, texts, asked)
    return _Wanted(
        preset=str(context.params["preset"] or options.Preset.balanced),
        tuned=tuned,
        settings=settings,
        texts=texts,
        given=frozenset(asked) & {*settings, *texts},
        threads=context.params["threads"],
    )


def _read(chosen: list[Selection], report: Report) -> Part:
    """The records of all files."""
    from hedgerow.data.joining import join_records

    parts = []
    for rows in chosen:
        part = rows.read(report, "train")
        rows.check_rows(part)
        rows.labels_of(part, "learn from")
        parts.append(part)
    with failing_as(ExitCode.DATA, ValueError):
        return join_records(parts)


class _Kept:
    """The folder of finished periods, and how many there are."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._finished = 0

    def add(self, _: JudgedPeriod) -> None:
        """Count a period."""
        self._finished += 1

    @property
    def left_behind(self) -> str:
        """What an interrupt leaves."""
        if self.folder is None or not self._finished:
            return "nothing was written"
        return f"finished periods are kept in {self.folder}; the same command continues from there"


def _run(
    wanted: _Wanted, records: Part, plan: Plan, kept: _Kept, report: Report, context: typer.Context
) -> OverTime:
    from hedgerow.chronology import over_time as compare
    from hedgerow.chronology.checkpoint import CheckpointError

    try:
        with (
            failing_as(ExitCode.DATA, ValueError, TypeError, options=context.params),
            # What a disk refuses here are finished periods.
            failing_as(ExitCode.WRITE, CheckpointError),
        ):
            return compare(
                wanted.make,
                records.texts,
                records.Y,
                records.times,
                plan,
                classes=records.label_names,
                settings=wanted.describe(),
                checkpoint=kept.folder,
                progress=report,
                finished=kept.add,
            )
    except KeyboardInterrupt:
        raise Failure(ExitCode.INTERRUPTED, kept.left_behind) from None
