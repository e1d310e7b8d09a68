"""Arguments and options that several commands share, and the values that they take.

The lists of values stand here once more than in the library, which takes seconds to import; tests/test_cli.py
compares them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from hedgerow.training.memory import parse_bytes

from .duration import parse_duration

LARGE = "Large data"
LONGEST_NGRAM = 32
NO_STEMS = "none"  # of --language
# Options for texts, which features do not have.
TEXTS = ("fields", "language", "analyzer", "ngrams", "char_ngrams", "min_count", "max_features", "sublinear")


Method = StrEnum(
    "Method",
    {
        "single": "single",
        "mc_dropout": "mc-dropout",
        "bagging": "bagging",
        "boosting": "boosting",
        "boosted_bagging": "boosted-bagging",
    },
)
Preset = StrEnum("Preset", ["fast", "balanced", "best", "paper"])
Base = StrEnum("Base", ["linear", "transformer"])
Precision = StrEnum("Precision", ["float32", "float16"])
Pooling = StrEnum("Pooling", ["mean", "cls"])
Missing = StrEnum("Missing", ["exact", "delta", "bound"])
Loss = StrEnum("Loss", ["squared_hinge", "logistic"])
Negatives = StrEnum("Negatives", {"tfn": "tfn", "tfn_man": "tfn+man"})
CalibrationMethod = StrEnum("CalibrationMethod", ["isotonic", "platt", "temperature", "beta"])
CalibrationGroups = StrEnum("CalibrationGroups", ["all", "depth", "frequency"])
CalibrationTarget = StrEnum("CalibrationTarget", ["mean", "members"])
LabelMeasure = StrEnum("LabelMeasure", ["probability", "total", "data", "knowledge", "variance"])
Words = StrEnum("Words", {"word": "word", "char_wb": "char_wb", "both": "word+char_wb"})
Unit = StrEnum("Unit", ["year", "month"])  # as of `hedgerow.data.times.UNITS`
# As of `hedgerow.chronology.Strategy`.
Strategies = StrEnum(
    "Strategies",
    {
        "never_updated": "never-updated",
        "calibrated_again": "calibrated-again",
        "updated": "updated",
        "fitted_again": "fitted-again",
    },
)
InputMeasure = StrEnum("InputMeasure", ["top", "expected", "total", "data", "knowledge", "variance", "ood"])
GOALS = ("wrong_at_most", "wrong_of", "missed_at_most", "review_at_most")  # options of decide
# As of `hedgerow.decisions.guarantees.SHARES_OF`.
WrongOf = StrEnum("WrongOf", ["labels", "answered", "inputs"])


def expert_option(*names: str, **about: Any) -> Any:
    """An option that a newcomer need not know."""
    return typer.Option(*names, rich_help_panel="Expert options", **about)


def deep_option(*names: str, **about: Any) -> Any:
    """An option for transformers."""
    return typer.Option(*names, rich_help_panel="Transformer", **about)


def text_option(*names: str, **about: Any) -> Any:
    """An option for texts, as opposed to features."""
    return typer.Option(*names, rich_help_panel="Texts", **about)


def share_option(about: str, panel: str | None = None) -> Any:
    """A share, of neither nothing nor everything."""
    return typer.Option(callback=_between_0_and_1, rich_help_panel=panel, help=about)


def expert_share(about: str) -> Any:
    """A share that a newcomer need not know."""
    return share_option(about, "Expert options")


def cost_option(about: str) -> Any:
    """The cost of a decision."""
    return typer.Option(callback=_cost, rich_help_panel="Costs, instead of a guarantee", help=about)


def limit_option(about: str, **range: Any) -> Any:
    """A limit of the server."""
    return typer.Option(rich_help_panel="Limits", help=about, **range)


def preset_option(more: str = "") -> Any:
    """How much effort to spend; `more` says what is special about a command."""
    return typer.Option(
        help="How much effort to spend. fast: a first look. balanced (the default): accurate, and"
        " calibrated by a learned judge. best: a little more accurate, and slower. paper: the settings of"
        f" the paper{more}.",
        show_default=False,
    )


def finite(value: float) -> float:
    """Refuse infinities and what is not a number."""
    if not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number")
    return value


def _between_0_and_1(value: float | None) -> float | None:
    """Refuse a share of nothing or of everything."""
    if value is not None and not 0 < value < 1:
        raise typer.BadParameter(f"{value} is not between 0 and 1")
    return value


def _cost(value: float | None) -> float | None:
    """Refuse costs below 0 or without end."""
    if value is not None and not 0 <= value < math.inf:
        raise typer.BadParameter(f"{value} is not a finite cost of 0 or more")
    return value


def _candidates(value: str | None) -> str | None:
    if value is None or value in ("scored", "all") or re.fullmatch("[1-9][0-9]{0,17}", value):
        return value
    raise typer.BadParameter(f"{value!r} is neither scored, nor all, nor a positive number")


def _duration(value: str | None) -> str | None:
    if value is not None:
        parse_duration(value)
    return value


def _time(value: str | None) -> str | None:
    if value is not None:
        from hedgerow.data.times import TimeError, check_time  # imports numpy

        try:
            check_time(value)
        except TimeError as error:
            raise typer.BadParameter(str(error)) from error
    return value


def parse_field(value: str) -> tuple[str, float]:
    """Name and weight of a field: "title", or "title:2"."""
    name, colon, weight = value.rpartition(":")
    if colon and re.fullmatch(r"[0-9]*\.?[0-9]+", weight):
        return name, float(weight)
    return value, 1.0


def _text_fields(values: list[str]) -> list[str]:
    from hedgerow.features.fields import Fields  # imports the engine

    if values:
        try:
            named = dict(map(parse_field, values))
            if len(named) < len(values):
                raise typer.BadParameter("a field is named twice")
            Fields.of(named)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
    return values


def _language(value: str | None) -> str | None:
    from hedgerow.features.stemming import check_language  # imports the engine

    if value == NO_STEMS:
        return value
    try:
        check_language(value)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return value


def _char_ngrams(value: str) -> str:
    found = re.fullmatch("([0-9]{1,2})-([0-9]{1,2})", value)
    if found is None or not 1 <= int(found[1]) <= int(found[2]) <= LONGEST_NGRAM:
        raise typer.BadParameter(f"{value!r} is not a range of lengths up to {LONGEST_NGRAM}, such as 3-5")
    return value


def _separator(value: str | None) -> str | None:
    if value == "":
        raise typer.BadParameter("it is empty; give what stands between labels")
    return "\t" if value in ("tab", "\\t") else value


def _size_of_memory(value: str | None) -> str | None:
    if value is not None:
        try:
            parse_bytes(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
    return value


def given(context: typer.Context) -> frozenset[str]:
    """Names of the parameters on the command line, as opposed to those left at their defaults."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(name for name, source in sources.items() if source and source.name == "COMMANDLINE")


def option_of(parameter: str) -> str:
    """The option, without its dashes, that sets a parameter of the estimators."""
    renamed = {"random_state": "seed", "fields": "text-field"}
    return renamed.get(parameter, parameter.replace("_", "-"))


def values_of(context: typer.Context, names: Iterable[str]) -> dict[str, Any]:
    """Some options by name, as the library takes them."""
    values = {name: context.params[name] for name in names}
    return {name: str(value) if isinstance(value, StrEnum) else value for name, value in values.items()}


def refuse_without(context: typer.Context, names: set[str], needed: str) -> None:
    """Refuse the first of these options on the command line: it makes sense with another one only."""
    for name in sorted(given(context) & names):
        option = name.replace("_", "-")
        raise typer.BadParameter(f"it needs {needed}", ctx=context, param_hint=f"--{option}")


def search_settings(beam: int | None, candidates: str | None, missing: Missing | None) -> dict[str, Any]:
    """The settings of the search that were asked for, as parameters of a model."""
    search = {
        "beam": beam,
        "candidates": int(candidates) if candidates and candidates.isdigit() else candidates,
        "missing": missing and missing.value,
    }
    return {name: value for name, value in search.items() if value is not None}


# --- what to read and to write ---

ModelFile = Annotated[Path, typer.Argument(help="The model file.", metavar="MODEL")]
NewModelFile = Annotated[Path, typer.Argument(help="The model file to write.", metavar="MODEL")]
Inputs = Annotated[
    list[Path],
    typer.Argument(
        help="A file, or a data folder (its test part). Name several files to read one after the other.",
        metavar="INPUT",
    ),
]
LabelledData = Annotated[
    list[Path],
    typer.Argument(
        help="Data with labels: a file, or a folder (its test part). Name several to read all of them.",
        metavar="DATA",
    ),
]
TrainingData = Annotated[
    list[Path],
    typer.Argument(
        help="A data folder (its train part is used) or file. Name several to read all of them.",
        metavar="DATA",
    ),
]
PartName = Annotated[
    str | None,
    typer.Option(
        "--part",
        metavar="NAME",
        help="Read this part: train, test, or any other value of the field 'split' of JSON records. Default:"
        " test of a folder, all of a file.",
    ),
]
LabelsField = Annotated[
    str, typer.Option(metavar="NAME", help="The field of JSON, CSV or Parquet with the labels.")
]
LabelSeparator = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        callback=_separator,
        help="What stands between labels in a column of CSV or in train_labels.txt, such as ';' or tab."
        " Default: found in the data; where that is not clear, they are refused.",
    ),
]
LaterWins = Annotated[
    bool,
    typer.Option(
        "--later-wins",
        help="Of records with the same id, keep only the last: later files correct earlier ones. Default:"
        " refuse them.",
    ),
]
Ood = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="DATA2",
        help="Out-of-distribution (OOD) data that should be detected as such: a file, or a folder (its test"
        " part). Repeat for more.",
    ),
]
LabelsOut = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Write to this file: .jsonl (also .gz, .xz, .zst), .csv or .parquet. Default: print.",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")]

# --- how to work and to report ---

Threads = Annotated[int, typer.Option(min=0, help="Threads; 0 means all cores. Results do not depend on it.")]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Print progress as lines on stderr, for logs. Default: a bar on a terminal."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="auto|local|ray://HOST:PORT",
        rich_help_panel=LARGE,
        help="Work on a Ray cluster: the one that runs on this machine (auto), one started for this command"
        " (local), or another. Results do not depend on it.",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        callback=_size_of_memory,
        rich_help_panel=LARGE,
        help="Train within this much memory, such as 8GB. DATA may be larger if it is mapped (hedgerow map)."
        " Results do not depend on it.",
    ),
]

MethodOption = Annotated[
    Method,
    typer.Option(
        "--method",  # named: some releases of typer take a metavar of the same letters for the name
        metavar="METHOD",
        help="How to train. One tree: single, or mc-dropout, which predicts several times with some"
        " weights left out. Or an ensemble: bagging (each member learns from its own sample of the"
        " rows), boosting (from the mistakes of those before it) or boosted-bagging (from both). All but"
        " single give knowledge (epistemic) uncertainty.",
    ),
]
Members = Annotated[
    int,
    typer.Option(
        min=1, max=4096, help="Members of an ensemble: more take longer and measure uncertainty better."
    ),
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        metavar="FILE",
        help="Take the settings from this file, which hedgerow tune wrote. Options beside it win.",
    ),
]
TimeField = Annotated[
    str | None,
    typer.Option(
        "--time-field",
        metavar="NAME",
        help="The field or column that says when a record is from: dates, months, years, numbers or"
        " timestamps, all of one kind.",
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="TIME",
        callback=_time,
        help="With --time-field: leave out records that are later. A year, a month or a day is included.",
    ),
]

TimeLimit = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="DURATION",
        callback=_duration,
        help="In place of --preset: spend about this time, such as 90s, 10m or 2h. It buys --preset best, or"
        " as wide a classifier as should fit; where that needs less than a third, the rest goes into a search"
        " for settings, as of hedgerow tune. It is an estimate, not a limit.",
    ),
]

# --- how to search ---

Beam = Annotated[
    int | None,
    expert_option(
        min=1,
        help="Nodes of the label tree that the search keeps per layer: more find more and take longer."
        " Default: as trained.",
    ),
]
Candidates = Annotated[
    str | None,
    expert_option(
        metavar="scored|all|N",
        callback=_candidates,
        help="Labels that the members of an ensemble vote on: all that the search scored, all there are"
        " (slow), or the best N of each member. Default: as trained, usually scored.",
    ),
]
MissingVotes = Annotated[
    Missing | None,
    expert_option(
        help="The vote of a member whose search did not reach a label that others propose: score it (exact),"
        " count it as 0 (delta), or take an upper bound (bound). Default: as trained, usually exact."
    ),
]
Tolerance = Annotated[
    float | None,
    expert_option(
        min=0.0,
        max=1.0,
        help="With --uncertainty: search until no missed label can be more probable than this (not with a"
        " number of --candidates). Default: stop where the beam ends.",
    ),
]

# --- which labels to answer ---

Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LABEL|@FILE",
        help="Answer this label only. Repeat it for more, or give a file with one label per line: @FILE.",
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LABEL|@FILE",
        help="Do not answer this label. Repeat it for more, or give a file with one label per line: @FILE.",
    ),
]

OnlyScheme = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SCHEME",
        help="Answer only labels of this scheme of the model's vocabulary, and those of --only. Repeat it for"
        " more.",
    ),
]
OnlySubtree = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ID",
        help="Answer only this entry of the vocabulary and what is below it, and those of --only. Repeat it"
        " for more.",
    ),
]
ExcludeScheme = Annotated[
    list[str] | None,
    typer.Option(metavar="SCHEME", help="Do not answer labels of this scheme. Repeat it for more."),
]
ExcludeSubtree = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ID",
        help="Do not answer this entry of the vocabulary nor what is below it. Repeat it for more.",
    ),
]

# --- how to call labels ---

Lang = Annotated[
    str | None,
    typer.Option(
        metavar="LANGUAGE",
        help="The language of names, such as de or en. Default: the first of the model's vocabulary.",
    ),
]

WeightThreshold = Annotated[
    float,
    expert_option(
        min=0.0, callback=finite, help="Drop weights smaller than this: larger values make smaller models."
    ),
]

# --- texts ---

TextFields = Annotated[
    list[str],
    text_option(
        "--text-field",
        metavar="NAME[:WEIGHT]",
        callback=_text_fields,
        default_factory=list,
        show_default=False,
        help="A field or column with a text, such as title, that gets features of its own; repeat it for"
        " more. title+abstract joins two, title:2 counts twice as much, title~chars reads characters and"
        " abstract~words no pairs of words. Default: the field text.",
    ),
]
LanguageOption = Annotated[
    str | None,
    text_option(
        "--language",
        metavar="LANGUAGE",
        callback=_language,
        help="Reduce words to their stems: a language by name or code, such as english or de, or auto to"
        " decide for each text or record; none takes words as they are written. Default: auto with balanced"
        " and best, else none.",
    ),
]
AnalyzerOption = Annotated[
    Words,
    text_option(
        "--analyzer",
        help="What counts as a feature: words, n-grams of characters within words (char_wb), which forgive"
        " spelling, or both (word+char_wb).",
    ),
]
Ngrams = Annotated[
    int, text_option("--ngrams", min=1, max=2, help="1: words alone; 2: also pairs of neighbouring words.")
]
CharNgrams = Annotated[
    str,
    text_option(
        "--char-ngrams",
        metavar="FROM-TO",
        callback=_char_ngrams,
        help="Lengths of n-grams of characters.",
    ),
]
MinCount = Annotated[
    int, text_option("--min-count", min=1, help="Drop words and pairs that occur in fewer texts.")
]
MaxFeatures = Annotated[
    int | None,
    text_option("--max-features", min=1, help="Keep only the N words and pairs that most texts have."),
]
Sublinear = Annotated[
    bool,
    text_option(
        "--sublinear/--no-sublinear", help="Weigh a word that occurs n times in a text by 1 + ln n, or by n."
    ),
]

# --- transformers ---

BaseOption = Annotated[
    Base,
    typer.Option(
        help="What reads the inputs: words (linear), or words and a transformer that is fine-tuned first."
    ),
]
EncoderName = Annotated[
    str, deep_option(metavar="PATH", help="A folder with a Hugging Face encoder, or its name on the hub.")
]
Device = Annotated[str, deep_option(help="auto (a GPU if there is one), cpu, cuda or cuda:1.")]
Epochs = Annotated[
    float,
    deep_option(
        min=0.0,
        callback=finite,
        help="Passes over the texts at each level of the label tree; 0 leaves the encoder as it is.",
    ),
]
Steps = Annotated[
    int | None, deep_option(min=0, help="Batches at each level of the label tree, instead of --epochs.")
]
Levels = Annotated[
    int | None,
    deep_option(min=1, help="Levels of the label tree to fine-tune on, coarse to fine. Default: all."),
]
BatchSize = Annotated[int, deep_option(min=1, help="Texts per step.")]
LearningRate = Annotated[
    float, deep_option(min=1e-12, callback=finite, help="The highest learning rate of AdamW.")
]
MaxLength = Annotated[int, deep_option(min=3, help="Tokens of a text that the encoder reads.")]
PoolingOption = Annotated[
    Pooling, deep_option(help="Embed a text by the mean of its tokens, or by the first one.")
]

# --- the server ---
