"""The commands and their options."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from hedgerow.deep.extra import GpuMemoryError

from .failures import ExitCode, Failure, reason
from .options import (
    DEEP,
    LIMITS,
    AsJson,
    Base,
    Beam,
    CacheFolder,
    CalibrationGroups,
    CalibrationMethod,
    CalibrationTarget,
    Candidates,
    Cluster,
    Coverage,
    Device,
    EncoderName,
    Extend,
    FirstShare,
    Host,
    InputsBy,
    InputsCoverage,
    InputsRisk,
    LabelMeasure,
    LabelsField,
    Levels,
    LookCost,
    Loss,
    MaxLength,
    Memory,
    Method,
    MicroBatch,
    MissedCost,
    Missing,
    MissingVotes,
    Negatives,
    NewModel,
    Ood,
    Out,
    OutOfBag,
    Overwrite,
    PartName,
    Pooling,
    PoolingOption,
    Port,
    Precision,
    Risk,
    Size,
    Steps,
    Threads,
    TokenFile,
    Tolerance,
    Trees,
    WrongCost,
    between_0_and_1,
    finite,
)
from .terminal import escape_what_streams_lack, flush_output, plain, print_error

app = typer.Typer(
    name="hedgerow",
    rich_markup_mode="rich",  # so a bracket in a help text is written \\[
    pretty_exceptions_enable=False,  # a one-line error, or Python's own traceback of a bug
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"hedgerow {metadata.version('hedgerow')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def hedgerow(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Extreme multi-label classification that knows when it does not know.

    \b
    Examples:
      hedgerow demo
      hedgerow fit data/ tags.hedgerow
      hedgerow predict tags.hedgerow new.jsonl --out tags.jsonl
    """  # noqa: D301
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def fit(
    context: typer.Context,
    data: Annotated[
        Path, typer.Argument(help="A data folder (its train part is used) or file.", metavar="DATA")
    ],
    model: Annotated[Path, typer.Argument(help="The model file to write.", metavar="MODEL")],
    method: Annotated[
        Method,
        typer.Option(
            metavar="METHOD",
            help="How to train: one tree (single); one tree, asked several times with some weights left out"
            " (mc-dropout); or several members, each taught by its own sample of the rows (bagging), by the"
            " mistakes of those before it (boosting), or by both (boosted-bagging). All but single tell doubt"
            " for lack of knowledge.",
        ),
    ] = Method.single,
    members: Annotated[
        int,
        typer.Option(
            min=1, max=4096, help="Members of an ensemble: more take longer and tell doubt more finely."
        ),
    ] = 10,
    trees: Trees = None,
    alpha: Annotated[
        float,
        typer.Option(
            min=0.0,
            callback=finite,
            help="With boosting: what a row counts that an earlier mistake brought in; others count 1.",
        ),
    ] = 0.5,
    hard_negatives: Annotated[
        int,
        typer.Option(
            min=1, max=100, help="With boosting: a mistake is a wrong label among so many best ones."
        ),
    ] = 10,
    dropout: Annotated[
        float,
        typer.Option(callback=between_0_and_1, help="With mc-dropout: share of the weights left out."),
    ] = 0.05,
    extend: Extend = None,
    base: Annotated[
        Base,
        typer.Option(
            help="What reads the inputs: words alone (linear), or a transformer as well, which is fine-tuned"
            " first."
        ),
    ] = Base.linear,
    encoder: EncoderName = "bert-base-uncased",
    encoders: Annotated[
        int,
        typer.Option(
            min=1,
            max=4096,
            rich_help_panel=DEEP,
            help="1 for all members, or as many as there are --members: then each has its own.",
        ),
    ] = 1,
    device: Device = "auto",
    epochs: Annotated[
        float,
        typer.Option(
            min=0.0,
            callback=finite,
            rich_help_panel=DEEP,
            help="Passes over the texts at each level of the label tree; 0 takes the encoder as it is.",
        ),
    ] = 1.0,
    steps: Steps = None,
    levels: Levels = None,
    batch_size: Annotated[
        int, typer.Option(min=1, rich_help_panel=DEEP, help="Texts that make a step.")
    ] = 32,
    micro_batch: MicroBatch = None,
    learning_rate: Annotated[
        float,
        typer.Option(min=1e-12, callback=finite, rich_help_panel=DEEP, help="The highest rate of AdamW."),
    ] = 5e-5,
    max_length: MaxLength = 128,
    pooling: PoolingOption = Pooling.mean,
    cache: CacheFolder = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same model.")] = 0,
    threads: Threads = 0,
    cluster: Cluster = None,
    memory: Memory = None,
    negatives: Annotated[
        Negatives,
        typer.Option(help="Train against siblings (tfn), or also against what the matcher confuses."),
    ] = Negatives.tfn,
    loss: Annotated[Loss, typer.Option(help="Loss of the classifiers.")] = Loss.squared_hinge,
    C: Annotated[
        float, typer.Option("--C", min=1e-12, callback=finite, help="Cost of errors against regularisation.")
    ] = 1.0,
    weight_threshold: Annotated[
        float, typer.Option(min=0.0, callback=finite, help="Drop weights smaller than this.")
    ] = 0.05,
    branching: Annotated[int, typer.Option(min=2, help="Children of a node of the label tree.")] = 8,
    leaf_size: Annotated[int, typer.Option(min=1, help="Most labels in a leaf.")] = 100,
    beam: Annotated[int, typer.Option(min=1, help="Nodes kept in each layer when predicting.")] = 50,
    labels_field: Annotated[
        str, typer.Option(help="Field of JSON, CSV or Parquet with the labels.")
    ] = "labels",
    overwrite: Overwrite = False,
    json: AsJson = False,
) -> None:
    """Train a model on DATA and save it as MODEL.

    DATA is read by its layout: train.txt of the extreme classification repository, a PECOS folder,
    train_texts.txt with train_labels.txt, or records with text and labels as .jsonl, .csv or .parquet.

    Finished members of an ensemble, and the state of fine-tuning, are kept in the
    folder MODEL.members until MODEL is saved: after Ctrl-C or a crash, the same
    command goes on from there.

    With --cluster (pip install 'hedgerow\\[ray]'), the trees are trained in blocks on a
    Ray cluster. Finished blocks are kept as well, and the model is the same file.

    With --memory, DATA that are mapped (see hedgerow map) may be larger than that.
    What does not fit lies in MODEL.members for the time of the fit.

    With --base transformer (pip install 'hedgerow\\[deep]'), the embeddings of an
    encoder stand beside the words. The default rate suits small encoders such as
    MiniLM and larger ones such as BERT.

    \b
    Examples:
      hedgerow fit eurlex-4k/ eurlex.hedgerow
      hedgerow fit eurlex-4k/ ten.hedgerow --method boosted-bagging --members 10
      hedgerow fit eurlex-4k/ twenty.hedgerow --extend ten.hedgerow --members 20
      hedgerow fit records.jsonl.xz tags.hedgerow --labels-field tags --threads 4
      hedgerow fit records.jsonl.xz deep.hedgerow --base transformer --encoder MiniLM/ --device auto
      hedgerow fit amazon-3m/ three.hedgerow --method bagging --cluster ray://head:10001
      hedgerow fit amazon-3m-mapped/ three.hedgerow --memory 8GB
    """  # noqa: D301
    from .connection import connected
    from .fit import Extension, check_new_file, run_fit

    if trees is not None and trees > members:
        raise typer.BadParameter(
            f"{trees} trees are more than the {members} members that share them (--members)",
            ctx=context,
            param_hint="--trees",
        )
    settings: dict[str, Any] = {
        "method": method.value,
        "members": members,
        "trees": trees,
        "alpha": alpha,
        "hard_negatives": hard_negatives,
        "dropout": dropout,
        "branching": branching,
        "leaf_size": leaf_size,
        "loss": loss.value,
        "C": C,
        "weight_threshold": weight_threshold,
        "negatives": negatives.value,
        "beam": beam,
        "random_state": seed,
    }
    deep: dict[str, Any] = {
        "encoder": encoder,
        "encoders": encoders,
        "epochs": epochs,
        "steps": steps,
        "levels": levels,
        "batch_size": batch_size,
        "micro_batch": micro_batch,
        "learning_rate": learning_rate,
        "max_length": max_length,
        "pooling": pooling.value,
    }
    place = {"device": device, "cache": cache}
    asked = _given(context, {**deep, **place})
    if base is Base.transformer:
        if "dropout" not in _given(context, settings):
            settings["dropout"] = None  # the encoder's own
        settings |= deep
    elif extend is not None:
        settings |= {name: value for name, value in deep.items() if name in asked}
    elif asked:
        option = min(asked).replace("_", "-")
        raise typer.BadParameter("it needs --base transformer", ctx=context, param_hint=f"--{option}")
    extension = None if extend is None else Extension(extend, _given(context, settings) | asked)
    if cluster is not None and base is Base.transformer:
        raise typer.BadParameter("a transformer is fitted here", ctx=context, param_hint="--cluster")
    if memory is not None and (cluster is not None or base is Base.transformer):
        other = "--cluster" if cluster is not None else "--base transformer"
        raise typer.BadParameter(f"it does not go with {other}", ctx=context, param_hint="--memory")
    site = {"cluster": cluster, "memory": memory}
    check_new_file(model, overwrite)
    with connected(cluster):
        run_fit(
            data, model, settings, base.value, place, threads, site, labels_field, extension, overwrite, json
        )


def _given(context: typer.Context, settings: dict[str, Any]) -> frozenset[str]:
    """Names of the settings that stand on the command line, rather than being defaults."""
    names = {name: "seed" if name == "random_state" else name for name in settings}
    sources = {name: context.get_parameter_source(option) for name, option in names.items()}
    return frozenset(name for name, source in sources.items() if source and source.name == "COMMANDLINE")


@app.command()
def predict(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="The model file.", metavar="MODEL")],
    input: Annotated[Path, typer.Argument(help="A file, or a data folder (its test part).", metavar="INPUT")],
    k: Annotated[
        int, typer.Option("--k", "-k", min=1, help="Labels for each input, if the model knows so many.")
    ] = 5,
    out: Out = None,
    part: PartName = None,
    threads: Threads = 0,
    cluster: Cluster = None,
    beam: Beam = None,
    uncertainty: Annotated[
        bool,
        typer.Option("--uncertainty", help="Say also how sure the model is of each label and each input."),
    ] = False,
    tolerance: Tolerance = None,
    candidates: Candidates = None,
    missing: MissingVotes = None,
    overwrite: Overwrite = False,
) -> None:
    """Predict the best labels of each input.

    JSON lines hold one object an input, labels in rank order:
    {"id": ..., "labels": [{"label": ..., "probability": ...}, ...]}.
    CSV and Parquet hold one row a label: row, id, rank, label, probability.

    With --uncertainty, each label also has its total uncertainty, which is the
    sum of data (the label is ambiguous) and knowledge (the members disagree, for
    they saw too little), and the variance of the members' probabilities. Each
    input has an object "input", or columns input_...: the expected number of
    labels, the same measures summed over all labels, and how far a search through
    all labels could change a probability (bound) or the total (missed).

    With --cluster (pip install 'hedgerow\\[ray]'), INPUT is a file or a folder of files,
    and --out a folder that gets a file of predictions for each. MODEL and both folders
    are where all nodes see them. After Ctrl-C or a crash, the same command goes on with
    the files that are missing.

    \b
    Examples:
      hedgerow predict tags.hedgerow new.jsonl
      hedgerow predict tags.hedgerow new.jsonl --uncertainty --out doubts.csv
      hedgerow predict eurlex.hedgerow eurlex-4k/ --k 10 --out predictions.parquet
      hedgerow predict tags.hedgerow tonight/ --out tagged/ --cluster ray://head:10001
    """  # noqa: D301
    from .predict import run_predict

    if tolerance is not None and not uncertainty:
        raise typer.BadParameter("it needs --uncertainty", ctx=context, param_hint="--tolerance")
    search = _search(beam, candidates, missing)
    if cluster is not None:
        from .predict_shards import run_predict_shards

        run_predict_shards(model, input, k, out, part, cluster, search, uncertainty, tolerance, overwrite)
        return
    run_predict(model, input, k, out, part, threads, search, uncertainty, tolerance, overwrite)


def _search(beam: int | None, candidates: str | None, missing: Missing | None) -> dict[str, Any]:
    """Ways to search that were asked for."""
    search = {
        "beam": beam,
        "candidates": int(candidates) if candidates and candidates.isdigit() else candidates,
        "missing": missing and missing.value,
    }
    return {name: value for name, value in search.items() if value is not None}


@app.command()
def calibrate(
    model: Annotated[Path, typer.Argument(help="The model file.", metavar="MODEL")],
    data: Annotated[
        Path,
        typer.Argument(
            help="Data with labels that MODEL was not trained on: a file, or a folder (its test part).",
            metavar="DATA",
        ),
    ],
    method: Annotated[
        CalibrationMethod, typer.Option(help="How the map from probabilities to probabilities may look.")
    ] = CalibrationMethod.isotonic,
    by: Annotated[
        CalibrationGroups,
        typer.Option(help="One map for all labels, or one for each group by depth or by frequency."),
    ] = CalibrationGroups.all,
    of: Annotated[
        CalibrationTarget, typer.Option(help="Calibrate the mean of the members, or each of them.")
    ] = CalibrationTarget.mean,
    out_of_bag: OutOfBag = None,
    share: FirstShare = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the cut of the rows.")] = 0,
    out: NewModel = None,
    part: PartName = None,
    labels_field: LabelsField = "labels",
    threads: Threads = 0,
    overwrite: Overwrite = False,
    json: AsJson = False,
) -> None:
    """Let MODEL learn from DATA how far it can be trusted, and write it with that.

    The rows are cut in two at random. One part tells how often probabilities come true (the
    calibration map) and what familiar inputs look like; the other, which guarantees need to be
    rows of its own, what can be guaranteed: see `hedgerow decide`. Rows that the model was
    trained on are left out.

    To see whether guarantees are kept, evaluate on further data.

    \b
    Examples:
      hedgerow calibrate tags.hedgerow held-out.jsonl
      hedgerow calibrate eurlex.hedgerow held-out/ --out-of-bag eurlex-4k/ --out sure.hedgerow
    """  # noqa: D301
    from .calibrate import run_calibrate

    options = {"method": method.value, "by": by.value, "of": of.value, "share": share, "seed": seed}
    run_calibrate(model, data, out, options, out_of_bag, part, labels_field, threads, overwrite, json)


@app.command()
def decide(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="The model file.", metavar="MODEL")],
    input: Annotated[Path, typer.Argument(help="A file, or a data folder (its test part).", metavar="INPUT")],
    risk: Risk = None,
    wrong: WrongCost = None,
    missed: MissedCost = None,
    look: LookCost = None,
    size: Size = None,
    by: Annotated[
        LabelMeasure, typer.Option(help="Accept labels by their probability, or by lack of this doubt.")
    ] = LabelMeasure.probability,
    coverage: Coverage = None,
    groups: Annotated[
        bool, typer.Option("--groups", help="Keep --risk for rare and for frequent labels alike.")
    ] = False,
    confidence: Annotated[
        float,
        typer.Option(callback=between_0_and_1, help="How surely the guarantee about wrong labels is kept."),
    ] = 0.9,
    inputs_by: InputsBy = None,
    inputs_risk: InputsRisk = None,
    inputs_coverage: InputsCoverage = None,
    false_alarm: Annotated[
        float,
        typer.Option(
            callback=between_0_and_1,
            help="Share of familiar inputs that are flagged as out-of-distribution inputs.",
        ),
    ] = 0.05,
    k: Annotated[int, typer.Option("--k", "-k", min=0, help="List at least so many labels.")] = 5,
    out: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Write here: .jsonl (also .gz, .xz, .zst), .csv or .parquet."),
    ] = None,
    part: PartName = None,
    threads: Threads = 0,
    overwrite: Overwrite = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines, for programs.")] = False,
) -> None:
    """Say of each label whether to accept it, to let a person look, or to reject it.

    MODEL must have been through `hedgerow calibrate`. With --risk 0.1, on average at most
    10 % of the true labels of an input are rejected and, with a confidence of 90 %, at most
    10 % of those it is given are wrong, on average over inputs (0 for one that is given none);
    what is between is for a person. With costs, each
    label is treated as costs least.

    JSON lines hold one object an input: {"id": ..., "labels": [{"label": ..., "decision":
    "accept", "probability": ..., ...}, ...], "input": {"out-of-distribution input": false, "p_value": ...,
    ...}}.
    CSV and Parquet hold one row a label. Labels that are not listed are rejected.

    \b
    Examples:
      hedgerow decide tags.hedgerow new.jsonl --risk 0.1
      hedgerow decide tags.hedgerow new.jsonl --wrong 1 --missed 2 --look 0.2 --out todo.csv
      hedgerow decide tags.hedgerow new.jsonl --inputs-by OOD score --inputs-coverage 0.9
    """  # noqa: D301
    from hedgerow.decisions.costs import Costs
    from hedgerow.decisions.wishes import Wish

    from .decide import run_decide

    asked = {"wrong": wrong, "missed": missed, "look": look}
    given = {name: value for name, value in asked.items() if value is not None}
    try:
        wish = Wish(
            risk=risk,
            costs=Costs(**given) if given else None,
            size=size,
            by=by.value,
            coverage=coverage,
            groups=groups,
            confidence=confidence,
            inputs_by=inputs_by and inputs_by.value,
            inputs_risk=inputs_risk,
            inputs_coverage=inputs_coverage,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error), ctx=context) from error
    run_decide(model, input, wish, false_alarm, k, out, part, threads, overwrite, json)


@app.command()
def inspect(
    model: Annotated[Path, typer.Argument(help="The model file.", metavar="MODEL")],
    json: AsJson = False,
) -> None:
    """Check a model file and say what is in it.

    \b
    Examples:
      hedgerow inspect tags.hedgerow
      hedgerow inspect tags.hedgerow --json | jq .parameters
    """  # noqa: D301
    from .inspect import run_inspect

    run_inspect(model, json)


@app.command()
def embed(
    encoder: Annotated[
        str,
        typer.Argument(
            help="A folder with an encoder, its name on the hub, or a model file.", metavar="ENCODER_OR_MODEL"
        ),
    ],
    data: Annotated[Path, typer.Argument(help="A file, or a data folder.", metavar="DATA")],
    out: Annotated[Path, typer.Option(help="The folder for embeddings.", metavar="FOLDER")],
    part: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Part of DATA. Default: train of a folder, all of a file.", show_default=False),
    ] = None,
    precision: Annotated[
        Precision, typer.Option(help="float16 takes half the room; fit uses float32.")
    ] = Precision.float32,
    max_length: Annotated[
        int, typer.Option(min=3, help="Tokens of a text that count; a model file has its own.")
    ] = 128,
    pooling: Annotated[
        Pooling, typer.Option(help="Mean of the tokens, or the first; a model file has its own.")
    ] = Pooling.mean,
    device: Annotated[
        str, typer.Option(help="auto (a GPU where there is one), cpu, cuda or cuda:1.")
    ] = "auto",
    threads: Threads = 0,
    json: AsJson = False,
) -> None:
    """Embed the texts of DATA and keep the embeddings in FOLDER, as one .npy file a text list and encoder.

    Its name is a hash of the texts and the encoder: with --cache FOLDER, `hedgerow fit`
    finds what is there and never takes what belongs to other texts or another encoder.

    \b
    Examples:
      hedgerow embed MiniLM/ records.jsonl.xz --out embeddings/
      hedgerow embed deep.hedgerow new.jsonl --out embeddings/ --precision float16
    """  # noqa: D301
    from .embed import run_embed

    run_embed(encoder, data, out, part, precision.value, max_length, pooling.value, device, threads, json)


@app.command("map")
def map_command(
    data: Annotated[Path, typer.Argument(help="The data set: a folder or a file.", metavar="DATA")],
    folder: Annotated[Path, typer.Argument(help="The folder to write.", metavar="FOLDER")],
    part: Annotated[str, typer.Option(help="Which part of DATA.")] = "train",
    threads: Threads = 0,
    overwrite: Overwrite = False,
) -> None:
    """Write features and labels as arrays that fit can map instead of reading them into memory.

    DATA is a PECOS folder or the text format of the extreme classification repository;
    it is never in memory as a whole, and neither is FOLDER when it is read.

    \b
    Examples:
      hedgerow map amazon-3m/ amazon-3m-mapped/
      hedgerow fit amazon-3m-mapped/ three.hedgerow --memory 8GB
    """  # noqa: D301
    from .map import run_map

    run_map(data, folder, part, threads, overwrite)


@app.command()
def import_pecos(
    folders: Annotated[
        list[Path], typer.Argument(help="Folders that PECOS's XLinearModel.save wrote.", metavar="DIR")
    ],
    model: Annotated[Path, typer.Argument(help="The model file to write.", metavar="MODEL")],
    overwrite: Overwrite = False,
    json: AsJson = False,
) -> None:
    """Make one model of trained PECOS XR-Linear models, each a member of an ensemble.

    Scores are those of PECOS; several DIR give uncertainty without training anew.
    They must have the same features and labels, and the post-processor l3-hinge
    (PECOS's default) or sigmoid.

    Inputs are taken as they are, as in PECOS: if it was trained on rows scaled to
    length 1, give such rows to predict, too.

    \b
    Examples:
      hedgerow import-pecos pecos-model/ tags.hedgerow
      hedgerow import-pecos seed-0/ seed-1/ seed-2/ ensemble.hedgerow
    """  # noqa: D301
    from .import_pecos import run_import_pecos

    run_import_pecos(folders, model, overwrite, json)


@app.command()
def explain(
    model: Annotated[Path, typer.Argument(help="The model file.", metavar="MODEL")],
    text_or_file: Annotated[
        str,
        typer.Argument(help="A text, - for one on stdin, or with --row a file.", metavar="TEXT_OR_FILE"),
    ],
    label: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="The label to explain. Default: the most probable one.", show_default=False),
    ] = None,
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="Words of each kind.")] = 10,
    row: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=0, help="Explain this input of a file, from 0.", show_default=False),
    ] = None,
    part: PartName = None,
    threads: Threads = 0,
    json: AsJson = False,
) -> None:
    """Say which words moved a label of one input, and on which the members disagree.

    The effect of a word is how much the logarithm of the label's probability would fall without it.

    \b
    Examples:
      hedgerow explain tags.hedgerow "an address book for the terminal"
      hedgerow explain tags.hedgerow - --label role::program < description.txt
      hedgerow explain eurlex.hedgerow eurlex-4k/ --row 17 --json
    """  # noqa: D301
    from .explain import run_explain

    run_explain(model, text_or_file, label, n, row, part, threads, json)


@app.command()
def query(
    model: Annotated[Path, typer.Argument(help="The model file: an ensemble.", metavar="MODEL")],
    input: Annotated[Path, typer.Argument(help="A file, or a data folder (its test part).", metavar="INPUT")],
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="How many to choose.")] = 10,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Choose pairs of input and label, for answers of yes or no.")
    ] = False,
    diversity: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, callback=finite, help="From 0, the plain ranking, to 1, no like inputs."
        ),
    ] = 1.0,
    out: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Write here: .jsonl (also .gz, .xz, .zst), .csv or .parquet."),
    ] = None,
    part: PartName = None,
    threads: Threads = 0,
    overwrite: Overwrite = False,
    json: AsJson = False,
) -> None:
    """Choose the inputs whose labels, given by a human, would teach the model most.

    They are those on which the members of an ensemble disagree most and that are unlike each other.
    Each has its row (from 0), its id where there is one, for pairs the label, its score and its
    knowledge uncertainty.

    \b
    Examples:
      hedgerow fit data/ tags.hedgerow --method bagging
      hedgerow query tags.hedgerow new.jsonl -n 20
      hedgerow query tags.hedgerow new.jsonl --pairs --out questions.csv
    """  # noqa: D301
    from .query import run_query

    run_query(model, input, n, pairs, diversity, out, part, threads, overwrite, json)


@app.command()
def evaluate(
    model: Annotated[Path, typer.Argument(help="The model file.", metavar="MODEL")],
    data: Annotated[
        Path, typer.Argument(help="Data with labels: a file, or a folder (its test part).", metavar="DATA")
    ],
    ood: Ood = None,
    json: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="FILE", help="Write all figures here; - prints them.", show_default=False),
    ] = None,
    part: PartName = None,
    labels_field: LabelsField = "labels",
    threads: Threads = 0,
    beam: Beam = None,
    candidates: Candidates = None,
    missing: MissingVotes = None,
    overwrite: Overwrite = False,
) -> None:
    """Tell how well MODEL ranks labels, and how well its doubt finds wrong labels and out-of-distribution
    inputs.

    Labels of DATA that the model does not know count as missed. Doubt is judged over all labels of an
    input: a label is wrong if it is either true or among as many best ones as there are true ones.

    With --ood, the inputs of DATA2 are out-of-distribution inputs. They get low probabilities everywhere, so
    the
    sums over labels (total, variance, JointEnergy, ...) are low for them; OOD score is high.

    \b
    Examples:
      hedgerow evaluate eurlex.hedgerow eurlex-4k/
      hedgerow evaluate tags.hedgerow packages/ --labels-field tags --ood reuters/ --json tags.json
    """  # noqa: D301
    from .evaluate import run_evaluate

    search = _search(beam, candidates, missing)
    run_evaluate(model, data, ood or [], json, part, labels_field, threads, search, overwrite)


@app.command()
def report(
    model: Annotated[Path, typer.Argument(help="The model file.", metavar="MODEL")],
    data: Annotated[
        Path, typer.Argument(help="Data with labels: a file, or a folder (its test part).", metavar="DATA")
    ],
    out: Annotated[Path, typer.Option(help="The page to write.")],
    ood: Ood = None,
    part: PartName = None,
    labels_field: LabelsField = "labels",
    threads: Threads = 0,
    overwrite: Overwrite = False,
) -> None:
    """Write a page about MODEL on DATA, to be opened in a browser.

    It has the figures of `hedgerow evaluate`, drawn, and shows the inputs that the model doubts most, those
    where it is sure and wrong, with the votes of its members, and the labels that it knows badly. The page is
    one file and needs no network.

    \b
    Examples:
      hedgerow report eurlex.hedgerow eurlex-4k/ --out eurlex.html
      hedgerow report tags.hedgerow packages/ --labels-field tags --ood reuters/ --out tags.html
    """  # noqa: D301
    from .report import run_report

    run_report(model, data, out, ood or [], part, labels_field, threads, overwrite)


@app.command()
def reproduce(
    context: typer.Context,
    data: Annotated[
        list[str],
        typer.Argument(
            help="Data folders with a train and a test part; PATH:FIELD where labels are in another field.",
            metavar="DATA",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder for results.", metavar="DIR")],
    ood: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="DATA2",
            help="More data that serve as out-of-distribution inputs. Repeat for more.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        Optional[list[Method]],  # noqa: UP045
        typer.Option(metavar="METHOD", help="Only this method. Repeat for more.", show_default=False),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Fit each method with so many seeds.")] = 3,
    members: Annotated[int, typer.Option(min=2, max=4096, help="Members of an ensemble.")] = 10,
    beam: Annotated[int, typer.Option(min=1, help="Nodes kept in each layer when predicting.")] = 50,
    missing: Annotated[
        Missing,
        typer.Option(help="Votes of members on labels that they did not meet: 0, as in the paper, or exact."),
    ] = Missing.delta,
    weight_threshold: Annotated[
        float, typer.Option(min=0.0, callback=finite, help="Drop weights smaller than this.")
    ] = 0.05,
    ood_rows: Annotated[
        int, typer.Option(min=10, help="At most so many out-of-distribution inputs of a kind.")
    ] = 2000,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="A try: one seed, three members, 2,000 inputs to learn from, 500 to judge."
        ),
    ] = False,
    base: Annotated[
        Base,
        typer.Option(
            help="What reads the inputs: words alone (the paper's tables 2 to 5), or a transformer as well"
            " (tables 6 to 8), with words alone beside for comparison."
        ),
    ] = Base.linear,
    encoder: EncoderName = "bert-base-uncased",
    encoders: Annotated[
        bool,
        typer.Option(
            "--encoders",
            rich_help_panel=DEEP,
            help="Also fine-tune an encoder for each member of boosted bagging, as the paper did: it takes"
            " --members times as long.",
        ),
    ] = False,
    device: Device = "auto",
    epochs: Annotated[
        float,
        typer.Option(
            min=0.0,
            callback=finite,
            rich_help_panel=DEEP,
            help="Passes over the texts at each level of the label tree; 0 takes the encoder as it is.",
        ),
    ] = 1.0,
    steps: Steps = None,
    levels: Levels = None,
    batch_size: Annotated[
        int, typer.Option(min=1, rich_help_panel=DEEP, help="Texts that make a step.")
    ] = 32,
    learning_rate: Annotated[
        float,
        typer.Option(min=1e-12, callback=finite, rich_help_panel=DEEP, help="The highest rate of AdamW."),
    ] = 5e-5,
    max_length: MaxLength = 128,
    pooling: PoolingOption = Pooling.mean,
    cache: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            metavar="FOLDER",
            rich_help_panel=DEEP,
            help="Keep fine-tuned encoders and embeddings here. Default: DIR/encoders.",
            show_default=False,
        ),
    ] = None,
    threads: Threads = 0,
) -> None:
    """Do the experiments of the paper on DATA: every method with several seeds, all tasks.

    Writes tables.md, tables.tex and tables.json in the layout of the paper's tables 2 to 5, or 6 to 8 with
    --base transformer (with its figures beside, where DATA is one of its data sets), and figures. Data sets
    with texts are out-of-distribution inputs to each other.

    What is done is kept in DIR: after Ctrl-C or a crash, the same command goes on from there. Files of
    DIR/experiments can come from several machines.

    With --base transformer (pip install 'hedgerow\\[deep]'), an encoder is fine-tuned once for each DATA and
    seed; all methods share it.

    \b
    Examples:
      hedgerow reproduce eurlex-4k/ --out results/
      hedgerow reproduce tibkat-en/ debian:tags debian:depends --ood reuters/ --out results/
      hedgerow reproduce tibkat-en/ --quick --out try/
      hedgerow reproduce tibkat-en/ --base transformer --encoder MiniLM/ --device auto --out deep/
    """  # noqa: D301
    from hedgerow.paper import DeepSettings, ExperimentSettings

    from .reproduce import run_reproduce

    options: dict[str, Any] = {
        "encoder": encoder,
        "encoders": encoders,
        "device": device,
        "epochs": epochs,
        "steps": steps,
        "levels": levels,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "max_length": max_length,
        "pooling": pooling.value,
    }
    deep = None
    if base is Base.transformer:
        deep = DeepSettings(**options, kept=cache)
    elif odd := sorted(_given(context, {**options, "cache": cache})):
        raise typer.BadParameter(
            "it needs --base transformer", ctx=context, param_hint=f"--{odd[0].replace('_', '-')}"
        )
    methods = [m.value for m in (method or Method)]
    settings = ExperimentSettings(
        methods=methods,
        seeds=1 if quick else seeds,
        members=min(3, members) if quick else members,
        beam=beam,
        missing=missing.value,
        weight_threshold=weight_threshold,
        ood_rows=min(500, ood_rows) if quick else ood_rows,
        quick=quick,
        deep=deep,
    )
    run_reproduce(data, ood or [], out, settings, threads)


@app.command()
def serve(
    model: Annotated[Path, typer.Argument(help="The model file.", metavar="MODEL")],
    host: Host = "127.0.0.1",
    port: Port = 8000,
    queue: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            metavar="FILE", help="The review queue. Default: MODEL.queue.sqlite.", show_default=False
        ),
    ] = None,
    token_file: TokenFile = None,
    allow_host: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="NAME",
            help="Answer under this name, too, such as that of a proxy. Repeat for more.",
            show_default=False,
        ),
    ] = None,
    threads: Annotated[
        int, typer.Option(min=0, help="Threads of one prediction; 0 means all cores but one.")
    ] = 0,
    max_body: Annotated[int, typer.Option(min=1, rich_help_panel=LIMITS, help="Bytes of a request.")] = 4
    * 1024
    * 1024,
    max_batch: Annotated[int, typer.Option(min=1, rich_help_panel=LIMITS, help="Inputs of a request.")] = 256,
    max_text: Annotated[
        int, typer.Option(min=1, rich_help_panel=LIMITS, help="Characters of a text.")
    ] = 100_000,
    max_seconds: Annotated[
        float, typer.Option(min=0.01, callback=finite, rich_help_panel=LIMITS, help="Time for a request.")
    ] = 10.0,
    max_waiting: Annotated[
        int, typer.Option(min=1, rich_help_panel=LIMITS, help="Inputs that may wait; more get 503.")
    ] = 1024,
) -> None:
    """Serve MODEL: an API for programs, a page for people, and a queue for reviewers.

    The page is at /, the description of the API at /openapi.json. SIGHUP, or POST /reload, loads MODEL anew
    without dropping a request; SIGTERM and Ctrl-C finish what is in flight.

    Only this machine can reach it, unless --host says otherwise. Then a token is needed: in the variable
    HEDGEROW_TOKEN or in --token-file.

    \b
    Examples:
      hedgerow serve tags.hedgerow
      hedgerow serve tags.hedgerow --host 0.0.0.0 --token-file token.txt
      curl -s localhost:8000/predict --json '{"text": "an address book", "k": 3}'
    """  # noqa: D301
    from hedgerow.serve.limits import Limits

    from .serve import Place, run_serve

    limits = Limits(body=max_body, batch=max_batch, text=max_text, seconds=max_seconds, waiting=max_waiting)
    run_serve(model, Place(host, port, token_file, tuple(allow_host or ())), queue, threads, limits)


@app.command()
def demo(
    context: typer.Context,
    threads: Threads = 0,
    json: AsJson = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the model, with its page and a review queue.")
    ] = False,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token_file: TokenFile = None,
) -> None:
    """Train on the embedded sample and show predictions; takes seconds.

    \b
    Examples:
      hedgerow demo
      hedgerow demo --serve
    """  # noqa: D301
    from .demo import run_demo

    if not serve:
        if odd := sorted(_given(context, {"host": host, "port": port, "token_file": token_file})):
            option = odd[0].replace("_", "-")
            raise typer.BadParameter("it needs --serve", ctx=context, param_hint=f"--{option}")
        run_demo(threads, json)
        return
    from .demo import serve_demo
    from .serve import Place

    serve_demo(threads, Place(host, port, token_file))


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : list of str, optional
        What follows the program's name; by default what the process was started with.

    Returns
    -------
    int
        The exit code, see `ExitCode`.
    """
    escape_what_streams_lack()
    code = _run(arguments)
    try:
        flush_output()
    except OSError as error:
        return code or _output_failed(error)
    return code


def _run(arguments: list[str] | None) -> int:
    """Run the command line, but for what stdout still holds back."""
    try:
        result = app(args=arguments, prog_name="hedgerow", standalone_mode=False)
        code = result if isinstance(result, int) else int(ExitCode.OK)
    except Failure as failure:
        if failure.code == ExitCode.INTERRUPTED:
            print(f"hedgerow: interrupted; {plain(failure)}", file=sys.stderr)
        else:
            print_error(str(failure))
        return failure.code
    except (KeyboardInterrupt, typer.Abort):
        code = int(ExitCode.INTERRUPTED)
    except GpuMemoryError as error:
        print_error(str(error))
        return ExitCode.UNEXPECTED
    except MemoryError:
        print_error("out of memory; use fewer rows or fewer --threads, or a machine with more memory")
        return ExitCode.UNEXPECTED
    except OSError as error:
        # Commands tell themselves what they could not read or save. This is what they print.
        return _output_failed(error)
    except Exception as error:
        # Usage errors of typer. Newer releases carry their own copy of click: no class can be named here.
        if not hasattr(error, "format_message"):
            raise
        message = error.format_message().rstrip(".")
        print_error(f"{message}; try '{_command_path(error)} --help'")
        return ExitCode.USAGE
    if code == ExitCode.INTERRUPTED:
        print("hedgerow: interrupted; nothing was written", file=sys.stderr)
    return code


def _output_failed(error: OSError) -> int:
    if isinstance(error, BrokenPipeError):  # the reader of our output has seen enough
        return ExitCode.UNEXPECTED
    print_error(reason(error))
    return ExitCode.WRITE


def _command_path(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return str(context.command_path) if context else "hedgerow"
