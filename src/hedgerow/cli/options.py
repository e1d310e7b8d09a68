"""Options that several commands share, and the values they take."""

from __future__ import annotations

import math
import re
from enum import Enum
from pathlib import Path
from typing import Annotated, Optional

import typer

from hedgerow.training.memory import parse_bytes


class Method(str, Enum):
    """Ways to train."""

    single = "single"
    mc_dropout = "mc-dropout"
    bagging = "bagging"
    boosting = "boosting"
    boosted_bagging = "boosted-bagging"


class Base(str, Enum):
    """What reads the inputs."""

    linear = "linear"
    transformer = "transformer"


class Precision(str, Enum):
    """How embeddings are stored."""

    float32 = "float32"
    float16 = "float16"


class Pooling(str, Enum):
    """How the vectors of tokens become one."""

    mean = "mean"
    cls = "cls"


class Missing(str, Enum):
    """What stands for a member's vote on a label that it did not meet."""

    exact = "exact"
    delta = "delta"
    bound = "bound"


class Loss(str, Enum):
    """Losses of the classifiers in the tree."""

    squared_hinge = "squared_hinge"
    logistic = "logistic"


class Negatives(str, Enum):
    """Which rows a classifier is trained against."""

    tfn = "tfn"
    tfn_man = "tfn+man"


class CalibrationMethod(str, Enum):
    """Maps from probabilities to probabilities."""

    isotonic = "isotonic"
    platt = "platt"
    temperature = "temperature"
    beta = "beta"


class CalibrationGroups(str, Enum):
    """Labels that share a map."""

    all = "all"
    depth = "depth"
    frequency = "frequency"


class CalibrationTarget(str, Enum):
    """What is calibrated."""

    mean = "mean"
    members = "members"


class LabelMeasure(str, Enum):
    """What makes a label certain."""

    probability = "probability"
    total = "total"
    data = "data"
    knowledge = "knowledge"
    variance = "variance"


class InputMeasure(str, Enum):
    """What makes an input doubtful."""

    top = "top"
    expected = "expected"
    total = "total"
    data = "data"
    knowledge = "knowledge"
    variance = "variance"
    ood = "ood"


def finite(value: float) -> float:
    """Refuse infinities and what is no number."""
    if not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number")
    return value


def between_0_and_1(value: float) -> float:
    """Refuse what is no share of something, nor of all."""
    if not 0 < value < 1:
        raise typer.BadParameter(f"{value} is not between 0 and 1")
    return value


def share_or_none(value: float | None) -> float | None:
    """Refuse what is no share of something, nor of all."""
    return None if value is None else between_0_and_1(value)


def cost_or_none(value: float | None) -> float | None:
    """Refuse what is no cost."""
    if value is not None and not 0 <= value < math.inf:
        raise typer.BadParameter(f"{value} is not a finite cost of 0 or more")
    return value


def read_candidates(value: str | None) -> str | None:
    """Refuse what names no candidates."""
    if value is None or value in ("scored", "all") or re.fullmatch("[1-9][0-9]{0,17}", value):
        return value
    raise typer.BadParameter(f"{value!r} is none of scored, all and positive numbers")


def size_of_memory(value: str | None) -> str | None:
    """Refuse what is no size."""
    if value is not None:
        try:
            parse_bytes(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
    return value


Threads = Annotated[int, typer.Option(min=0, help="Threads; 0 means all cores. Results do not depend on it.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]
# typer reads these annotations at run time, and Python 3.10 with older typer cannot read "int | None" there.
Beam = Annotated[Optional[int], typer.Option(min=1, help="Search this wide instead of as fitted.")]  # noqa: UP045
Cluster = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        metavar="auto|local|ray://HOST:PORT",
        help="Work on a Ray cluster: that of this machine (auto), one that is started for this (local), or"
        " another. Results do not depend on it.",
        show_default=False,
    ),
]
Memory = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        metavar="SIZE",
        callback=size_of_memory,
        help="Fit within this much memory, such as 8GB; DATA may be larger, if mapped (hedgerow map)."
        " Results do not depend on it.",
        show_default=False,
    ),
]
Out = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        help="Write here: .jsonl (also .gz, .xz, .zst), .csv or .parquet. Default: JSON lines to stdout."
    ),
]
Extend = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        metavar="OLD_MODEL",
        help="Do not fit anew: take this ensemble, train more members on the same DATA until there are"
        " --members, and write all as MODEL.",
        show_default=False,
    ),
]
Trees = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        min=1,
        max=4096,
        help="Label trees that the members share: fewer make a smaller and faster model. Default: one for"
        " each member.",
        show_default=False,
    ),
]
DEEP = "Transformer"
EncoderName = Annotated[
    str,
    typer.Option(
        rich_help_panel=DEEP,
        metavar="PATH",
        help="A folder with an encoder of Hugging Face, or its name on the hub.",
    ),
]
Device = Annotated[
    str,
    typer.Option(rich_help_panel=DEEP, help="auto (a GPU where there is one), cpu, cuda or cuda:1."),
]
MaxLength = Annotated[int, typer.Option(min=3, rich_help_panel=DEEP, help="Tokens of a text that count.")]
PoolingOption = Annotated[
    Pooling,
    typer.Option(rich_help_panel=DEEP, help="Embed a text by the mean of its tokens, or by the first."),
]
Steps = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        min=0,
        rich_help_panel=DEEP,
        help="Batches at each level of the label tree, instead of --epochs.",
        show_default=False,
    ),
]
Levels = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        min=1,
        rich_help_panel=DEEP,
        help="Levels of the label tree to fine-tune on, coarse to fine. Default: all.",
        show_default=False,
    ),
]
MicroBatch = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        min=1,
        rich_help_panel=DEEP,
        help="Texts computed at once, if a whole batch needs too much memory. Default: all of it.",
        show_default=False,
    ),
]
CacheFolder = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        rich_help_panel=DEEP,
        metavar="FOLDER",
        help="Keep embeddings here and use those that are there.",
        show_default=False,
    ),
]
Tolerance = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option(
        min=0.0,
        max=1.0,
        help="With --uncertainty: search on until no missed label can be more probable than this"
        " (not with a number of --candidates). Default: stop where the beam ends.",
        show_default=False,
    ),
]
Candidates = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        metavar="scored|all|N",
        callback=read_candidates,
        help="Labels that the members of an ensemble vote on: all that the search scored, all there are"
        " (slow), or the best N of each member. Default: as fitted, usually scored.",
        show_default=False,
    ),
]
MissingVotes = Annotated[
    Optional[Missing],  # noqa: UP045
    typer.Option(
        help="Where a member did not meet a label that another one proposes: let it look (exact), count it as"
        " 0 (delta), or take the most it can be (bound). Default: as fitted, usually exact.",
        show_default=False,
    ),
]
PartName = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--part", help="Part of INPUT. Default: test of a folder, all of a file.", show_default=False
    ),
]
Ood = Annotated[
    Optional[list[Path]],  # noqa: UP045
    typer.Option(
        metavar="DATA2",
        help="Data of another kind, to be told from DATA: a file, or a folder (its test part). Repeat for"
        " more.",
        show_default=False,
    ),
]
LabelsField = Annotated[str, typer.Option(help="Field of JSON, CSV or Parquet with the labels.")]
OutOfBag = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        metavar="TRAIN",
        help="Learn the calibration map from the training data (a folder: its train part), of each input by"
        " the members that have not seen it. MODEL must be bagged.",
        show_default=False,
    ),
]
FirstShare = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option(
        callback=share_or_none,
        help="Share of the rows for the map and for what is familiar; the rest is for the policy. Default:"
        " 0.5, and 0.2 with --out-of-bag.",
        show_default=False,
    ),
]
NewModel = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(help="Write another model file. Default: MODEL is replaced.", show_default=False),
]
Risk = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option(
        callback=share_or_none,
        help="Mean share of an input's true labels that may be rejected, and of wrong labels among those that"
        " are accepted. Default: 0.1.",
        show_default=False,
    ),
]
Size = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option(
        help="Instead of --risk: accept at most so many labels of an input on average.", show_default=False
    ),
]
COSTS = "Costs, instead of --risk"
WrongCost = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option(
        callback=cost_or_none,
        rich_help_panel=COSTS,
        help="Of a label that is accepted and wrong. Default: 1.",
        show_default=False,
    ),
]
MissedCost = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option(
        callback=cost_or_none,
        rich_help_panel=COSTS,
        help="Of a true label that is rejected. Default: 1.",
        show_default=False,
    ),
]
LookCost = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option(
        callback=cost_or_none,
        rich_help_panel=COSTS,
        help="Of a person who looks at a label. Default: 0.2.",
        show_default=False,
    ),
]
Coverage = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option(
        callback=share_or_none,
        help="Accept at least this mean share of the labels with a probability of one half or more, in place"
        " of what --risk allows.",
        show_default=False,
    ),
]
InputsBy = Annotated[
    Optional[InputMeasure],  # noqa: UP045
    typer.Option(
        help="Accept nothing for the inputs that are most doubtful by this: 1 less the highest probability"
        " (top), few expected labels, sums of doubt, or OOD score.",
        show_default=False,
    ),
]
InputsRisk = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option(
        callback=share_or_none,
        help="With --inputs-by: of the inputs that are left, the best label of at most this share is wrong.",
        show_default=False,
    ),
]
InputsCoverage = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option(
        callback=share_or_none,
        help="With --inputs-by: leave at least this share of the inputs.",
        show_default=False,
    ),
]
LIMITS = "Limits"
Host = Annotated[
    str, typer.Option(help="The address to listen on. Any but this machine's own needs a token.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")]
TokenFile = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        metavar="FILE",
        help="Ask every client for the token in this file. Default: the variable HEDGEROW_TOKEN.",
        show_default=False,
    ),
]
