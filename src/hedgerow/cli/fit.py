"""``hedgerow fit``."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import hedgerow.cli.options as options

from .duration import parse_duration
from .failures import ExitCode, Failure, failing_as, reason
from .fit_summary import print_summary, summarize
from .kept_members import NOTHING_LEFT, KeptMembers
from .options import (
    deep_option,
    expert_option,
    expert_share,
    finite,
    given,
    option_of,
    refuse_without,
    values_of,
)
from .settings_file import TunedSettings, read_settings
from .targets import check_new_file, check_new_model, identity
from .terminal import Report, announce, print_json, say, show_progress
from .text_settings import text_settings
from .time_given import GivenTime
from .training_failures import training
from .warned import warnings_as_lines

if TYPE_CHECKING:
    from hedgerow import HedgerowClassifier
    from hedgerow.data import Part
    from hedgerow.vocabulary import Vocabulary

    from .inputs import Selection
    from .presets import Request


# Options that are parameters of the estimators, and those for texts and of the transformer alone.
_SETTINGS = (
    *("method", "members", "trees", "alpha", "hard_negatives", "dropout", "branching", "leaf_size"),
    *("loss", "C", "weight_threshold", "negatives", "judge", "wide", "beam"),
)
# What presets choose besides.
_CHOSEN = ("tolerance", "matcher_beam", "dampen")
_TUNING = (
    *("encoder", "encoders", "epochs", "steps", "levels", "batch_size", "micro_batch", "learning_rate"),
    *("max_length", "pooling", "label_text"),
)


@dataclass(frozen=True)
class Plan:
    """What to train: settings of the estimator, where it computes, and the model that it extends.

    `preset` and `seconds` choose what is not given. `texts` has the settings for texts, which features do not
    have. `place` says where a transformer computes
    and keeps embeddings, `site` has the cluster or the memory budget of other models, `given` names the
    settings on the command line.
    """

    rows: Selection
    model: Path
    deep: bool
    settings: dict[str, Any]
    preset: str
    seconds: float | None
    texts: dict[str, Any]
    place: dict[str, Any]
    site: dict[str, str | None]
    extend: Path | None
    given: frozenset[str]
    overwrite: bool
    vocabulary: Path | None = None
    tuned: TunedSettings | None = None
    records: bool = False

    @property
    def request(self) -> Request:
        """What a preset makes settings of."""
        from .presets import Request

        return Request(self.preset, self.seconds, self.settings, self.texts, self.given, self.rows.threads)


def fit(
    context: typer.Context,
    data: options.TrainingData,
    model: options.NewModelFile,
    text_field: options.TextFields,
    method: options.MethodOption = options.Method.single,
    members: options.Members = 10,
    preset: Annotated[
        options.Preset | None,
        options.preset_option("; the default with --base transformer, --cluster and --memory"),
    ] = None,
    time_limit: options.TimeLimit = None,
    base: options.BaseOption = options.Base.linear,
    labels_field: options.LabelsField = "labels",
    label_separator: options.LabelSeparator = None,
    later_wins: options.LaterWins = False,
    time_field: options.TimeField = None,
    until: options.Until = None,
    settings_file: options.SettingsFile = None,
    extend: Annotated[
        Path | None,
        typer.Option(
            metavar="OLD_MODEL",
            help="Train only the members that this ensemble lacks to have --members, and write all of them as"
            " MODEL. DATA must be the data it was trained on; other rows or labels are refused.",
        ),
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Names of the labels, kept in MODEL: SKOS (.ttl, .rdf), .tsv, .csv or .json. Labels are its"
            " ids.",
        ),
    ] = None,
    records: Annotated[
        bool | None,
        typer.Option(
            "--records/--no-records",
            help="Keep DATA beside the model, in MODEL.data, for hedgerow update. The default, but with"
            " --cluster, --memory and --extend.",
            show_default=False,
        ),
    ] = None,
    seed: options.Seed = 0,
    threads: options.Threads = 0,
    overwrite: options.Overwrite = False,
    json: options.AsJson = False,
    verbose: options.Verbose = False,
    cluster: options.Cluster = None,
    memory: options.Memory = None,
    language: options.LanguageOption = None,
    analyzer: options.AnalyzerOption = options.Words.word,
    ngrams: options.Ngrams = 2,
    char_ngrams: options.CharNgrams = "3-5",
    min_count: options.MinCount = 2,
    max_features: options.MaxFeatures = None,
    sublinear: options.Sublinear = True,
    encoder: options.EncoderName = "bert-base-uncased",
    encoders: Annotated[
        int,
        deep_option(
            min=1, max=4096, help="1 for all members together, or as many as --members: one for each."
        ),
    ] = 1,
    device: options.Device = "auto",
    epochs: options.Epochs = 1.0,
    steps: options.Steps = None,
    levels: options.Levels = None,
    batch_size: options.BatchSize = 32,
    micro_batch: Annotated[
        int | None,
        deep_option(
            min=1,
            help="Texts that are computed at the same time, if a batch needs too much memory. Default: the"
            " whole batch.",
        ),
    ] = None,
    learning_rate: options.LearningRate = 5e-5,
    max_length: options.MaxLength = 128,
    pooling: options.PoolingOption = options.Pooling.mean,
    label_text: Annotated[
        bool,
        deep_option(
            "--label-text/--no-label-text",
            help="With --judge and --vocabulary: also compare the names of labels with texts by the encoder."
            " Kept only if it ranks better.",
        ),
    ] = False,
    cache: Annotated[
        Path | None, deep_option(metavar="FOLDER", help="Keep embeddings here, and use those that are there.")
    ] = None,
    trees: Annotated[
        int | None,
        expert_option(
            min=1,
            max=4096,
            help="Label trees that the members share: fewer make a smaller and faster model. Default: one per"
            " member.",
        ),
    ] = None,
    alpha: Annotated[
        float,
        expert_option(
            min=0.0,
            callback=finite,
            help="With boosting: the weight of rows that an earlier mistake added; others have weight 1.",
        ),
    ] = 0.5,
    hard_negatives: Annotated[
        int,
        expert_option(
            min=1, max=100, help="With boosting: a mistake is a wrong label among the best N.", metavar="N"
        ),
    ] = 10,
    dropout: Annotated[float, expert_share("With mc-dropout: share of weights left out.")] = 0.05,
    negatives: Annotated[
        options.Negatives, expert_option(help="tfn+man is more accurate and several times slower.")
    ] = options.Negatives.tfn,
    loss: Annotated[
        options.Loss, expert_option(help="Loss of the linear classifiers.")
    ] = options.Loss.squared_hinge,
    C: Annotated[
        float,
        expert_option(
            "--C",
            min=1e-12,
            callback=finite,
            help="Weight of errors relative to regularisation: larger fits the data more closely.",
        ),
    ] = 1.0,
    weight_threshold: options.WeightThreshold = 0.05,
    branching: Annotated[int, expert_option(min=2, help="Children of a node of the label tree.")] = 8,
    leaf_size: Annotated[int, expert_option(min=1, help="Most labels in a leaf of the label tree.")] = 100,
    judge: Annotated[
        bool,
        expert_option(
            "--judge/--no-judge",
            help="Learn to re-rank the labels that the trees find: more accurate, and slower to train."
            " Presets choose it.",
            show_default=False,
        ),
    ] = False,
    wide: Annotated[
        int | None,
        expert_option(
            min=1,
            metavar="N",
            help="With --judge: also ask a second classifier that tells each label apart from about N"
            " others; a larger N is slower to train. Presets choose it.",
        ),
    ] = None,
    beam: Annotated[
        int,
        expert_option(
            min=1,
            help="Nodes of the label tree that the search keeps per layer: more find more and take longer.",
        ),
    ] = 50,
) -> None:
    """Train a model on DATA and save it as MODEL.

    DATA is recognised by its layout: records with text and labels as .jsonl, .csv or .parquet, train.txt
    of the extreme classification repository, a PECOS folder, or train_texts.txt with train_labels.txt.

    Several DATA, in any of these formats, are one: so are texts that were reviewed learned from beside the
    old ones. Records may have an id or not, and the same id twice is refused, or with --later-wins corrected.

    Finished members of an ensemble, and the state of fine-tuning, are kept in the folder MODEL.members until
    MODEL is saved: after Ctrl-C or a crash, the same command continues from there.

    With --cluster (pip install 'hedgerow\\[ray]'), the trees are trained in blocks on a Ray cluster. The
    model is the same, byte for byte. With --memory, DATA that is mapped (see hedgerow map) may be larger
    than memory.

    With --base transformer (pip install 'hedgerow\\[deep]'), the embeddings of an encoder are used beside the
    words. The default learning rate suits small encoders such as MiniLM and larger ones such as BERT.

    \b
    Examples:
      hedgerow fit records.jsonl tags.hedgerow
      hedgerow fit records.jsonl.xz tags.hedgerow --labels-field tags --method bagging
      hedgerow fit train.jsonl reviewed.jsonl more.csv tags.hedgerow
      hedgerow fit records.jsonl tags.hedgerow --language auto --min-count 3
      hedgerow fit records.jsonl tags.hedgerow --text-field title --text-field abstract
      hedgerow fit records.jsonl tags.hedgerow --settings settings.json
      hedgerow fit records.jsonl tags.hedgerow --time-field year --until 2020
      hedgerow fit records.jsonl subjects.hedgerow --vocabulary stw.ttl
      hedgerow fit eurlex-4k/ ten.hedgerow --method boosted-bagging --members 10
      hedgerow fit eurlex-4k/ twenty.hedgerow --extend ten.hedgerow --members 20
      hedgerow fit records.jsonl deep.hedgerow --base transformer --encoder MiniLM/
      hedgerow fit amazon-3m/ three.hedgerow --method bagging --cluster ray://head:10001
      hedgerow fit amazon-3m-mapped/ three.hedgerow --memory 8GB
    """  # noqa: D301
    if trees is not None and trees > members:
        raise typer.BadParameter(
            f"{trees} trees are more than the {members} members that share them (--members)",
            ctx=context,
            param_hint="--trees",
        )
    settings = values_of(context, _SETTINGS) | {"random_state": seed}
    texts = text_settings(context)
    tuning = values_of(context, _TUNING)
    place = {"device": device, "cache": cache}
    deep = base is options.Base.transformer
    renamed = {"seed": "random_state", "text_field": "fields"}
    asked = {renamed.get(name, name) for name in given(context)}
    tuned = None if settings_file is None else read_settings(context, settings_file)
    if tuned is not None:
        settings, texts = tuned.merge(settings, texts, asked)
    if deep:
        if "dropout" not in asked:
            settings["dropout"] = None  # the encoder's own
        settings |= tuning
    elif extend is not None:
        settings |= {name: value for name, value in tuning.items() if name in asked}
    else:
        refuse_without(context, {*tuning, *place}, "--base transformer")
    if deep and cluster is not None:
        raise typer.BadParameter(
            "a transformer is trained on this machine only", ctx=context, param_hint="--cluster"
        )
    elsewhere = "--base transformer" if deep else "--cluster" if cluster else "--memory" if memory else None
    if extend is not None and (preset is not None or time_limit is not None):
        raise typer.BadParameter(
            "--extend keeps the settings of OLD_MODEL; leave it out", ctx=context, param_hint="--preset"
        )
    if elsewhere and (time_limit is not None or preset in (options.Preset.balanced, options.Preset.best)):
        refused = (
            "it chooses settings for words alone; with --base transformer, give --judge and --wide N yourself"
            if deep
            else f"a judge is learned in the memory of one machine, and not with {elsewhere}; use --preset"
            " fast or paper"
        )
        raise typer.BadParameter(
            refused,
            ctx=context,
            param_hint="--time" if preset is None else "--preset",
        )
    if preset is not None and time_limit is not None:
        raise typer.BadParameter("give --preset or --time, not both", ctx=context, param_hint="--time")
    if preset is None:
        preset = options.Preset.paper if elsewhere or extend is not None else options.Preset.balanced
    if memory is not None and (deep or cluster is not None):
        other = "--cluster" if cluster is not None else "--base transformer"
        raise typer.BadParameter(f"it cannot be used with {other}", ctx=context, param_hint="--memory")
    if (until is None) != (time_field is None):
        missing, own = ("--until", "--time-field") if until is None else ("--time-field", "--until")
        raise typer.BadParameter(f"it needs {missing}", ctx=context, param_hint=own)
    if records and extend is not None:
        raise typer.BadParameter(
            "members are added to a model without its records; leave out one of both",
            ctx=context,
            param_hint="--records",
        )
    if records is None:
        records = cluster is None and memory is None and extend is None
    check_new_model(model, overwrite)
    from .connection import connected
    from .inputs import Selection, sources

    plan = Plan(
        rows=Selection(
            data,
            None,
            labels_field,
            threads,
            sources(texts["fields"]),
            time_field=time_field,
            until=until,
            label_separator=label_separator,
            unique_ids=True,
            later_wins=later_wins,
        ),
        model=model,
        deep=deep,
        settings=settings,
        preset=preset.value,
        seconds=None if time_limit is None else parse_duration(time_limit),
        texts=texts,
        place=place,
        site={"cluster": cluster, "memory": memory},
        extend=extend,
        given=frozenset(asked) & {*settings, *texts, *place},
        overwrite=overwrite,
        vocabulary=vocabulary,
        tuned=tuned,
        records=records,
    )
    with connected(cluster):
        _run(plan, json, verbose)


def _run(plan: Plan, as_json: bool, verbose: bool) -> None:
    """Read, train, save and print; what would fail at the end fails at the start."""
    from hedgerow import HedgerowTransformerClassifier
    from hedgerow.deep.extra import is_first
    from hedgerow.records.file import drop_records
    from hedgerow.vocabulary import VocabularyWarning

    from .extending import open_extendable, trains_members
    from .presets import choose
    from .vocabularies import read_names

    settings = plan.settings
    old = None if plan.extend is None else open_extendable(plan.extend, settings | plan.texts, plan.given)
    discarded = () if old is None else old.source.learned
    deep = plan.deep or isinstance(old, HedgerowTransformerClassifier)
    in_blocks = any(plan.site.values())
    if deep and in_blocks:
        name = "cluster" if plan.site["cluster"] else "memory"
        raise Failure(ExitCode.USAGE, f"--{name}: a transformer is trained as a whole; leave --{name} out")
    if deep:
        _check_deep_option(plan.place["device"], settings if old is None else {})
    vocabulary = None if plan.vocabulary is None else read_names(plan.vocabulary)
    several = deep or trains_members(settings["method"])
    kept = None
    if old is None and (several or in_blocks):
        kept = KeptMembers(Path(f"{plan.model}.members"), settings["members"] if several else 1)
        kept.announce()
    start = time.perf_counter()
    limit = None if plan.seconds is None else GivenTime(plan.seconds, start, plan.model)
    if limit is not None:
        check_new_file(limit.journal, overwrite=True)
    before = identity(plan.model)
    try:
        with show_progress(verbose) as report:
            rows = plan.rows if old is None else replace(plan.rows, text_fields=old.source.reader.text_fields)
            part = rows.read(report, "train")
            inputs, estimator = _choose(plan, part, deep)
            if plan.tuned is not None:
                plan.tuned.check_estimator(estimator, plan.rows.path)
            words = {} if part.texts is None or part.X is not None else plan.texts
            own = {**(plan.place if deep else plan.site), "n_jobs": plan.rows.threads or -1}
            chosen = None
            if old is None:
                if not deep and plan.tuned is None:
                    chosen = choose(part, plan.request)
                    announce(chosen.sentence)
                    if limit is not None:
                        begun = estimator(**chosen.settings, **(chosen.texts or {}), **own)
                        chosen = limit.spend(chosen, begun, (inputs, part.Y), plan.given, report, verbose)
                    settings, words = chosen.settings, chosen.texts or {}
                classifier = estimator(**settings, **words, **own)
                _fit(classifier, inputs, part, kept, report, plan, vocabulary)
            else:
                if type(old) is not estimator:
                    raise Failure(
                        ExitCode.DATA,
                        f"{plan.rows.path} needs a {estimator.__name__}, but {plan.extend} holds a"
                        f" {type(old).__name__}",
                    )
                classifier = old.set_params(**own)
                _extend(plan, classifier, inputs, part, report)
                if vocabulary is not None:
                    with warnings_as_lines(VocabularyWarning):
                        classifier.set_vocabulary(vocabulary)
            if not is_first():  # of several processes, one writes
                return
            report(0.0, "saving")
            with failing_as(ExitCode.WRITE):
                classifier.save(plan.model, overwrite=plan.overwrite)
                if not plan.records:
                    drop_records(plan.model)
        if kept is not None:
            with failing_as(ExitCode.WRITE):
                kept.delete()
        if limit is not None:
            with failing_as(ExitCode.WRITE):
                limit.forget_trials()
        shown = (*plan.settings, *_CHOSEN, *plan.texts)
        seconds = time.perf_counter() - start
        summary = summarize(plan.model, classifier, part.n, seconds, shown, plan.extend is not None)
        if chosen is not None:
            summary |= chosen.describe()
        if discarded:
            summary["discarded"] = discarded
        if plan.rows.until is not None:
            summary |= {"until": plan.rows.until, "later_rows": part.later}
        if as_json:
            print_json(summary)
        else:
            if chosen is not None:
                say(chosen.sentence)
                if chosen.searched is not None:
                    say(chosen.searched.sentence)
            print_summary(summary)
    except KeyboardInterrupt:
        if identity(plan.model) != before:
            left = f"{plan.model} is saved"
        else:
            left = kept.left_behind() if kept else NOTHING_LEFT
            if left == NOTHING_LEFT and limit is not None:
                left = limit.left_behind or left
        raise Failure(ExitCode.INTERRUPTED, left) from None


def _check_deep_option(device: str, settings: dict[str, Any]) -> None:
    """Refuse now what could not be fine-tuned later."""
    from hedgerow import HedgerowTransformerClassifier
    from hedgerow.deep.extra import check_device

    with failing_as(ExitCode.USAGE, ValueError, ImportError):
        check_device(device)
        if "encoder" in settings:
            HedgerowTransformerClassifier(**settings).check_encoder()


def _choose(plan: Plan, part: Part, deep: bool) -> tuple[Any, type[HedgerowClassifier]]:
    """What to learn from, and the estimator that can."""
    import hedgerow

    rows = plan.rows
    rows.check_rows(part)
    rows.labels_of(part, "learn from")
    if part.X is not None:
        if deep:
            raise Failure(
                ExitCode.DATA,
                f"{rows.path} has features and no texts, which a transformer reads; give it texts",
            )
        for name in sorted(plan.given & set(plan.texts)):
            raise Failure(
                ExitCode.USAGE,
                f"--{option_of(name)} is for texts, but {rows.path} has features; leave it out",
            )
        return part.X, hedgerow.HedgerowClassifier
    if part.texts is not None:
        if "fields" in plan.given and part.fields is None:
            raise Failure(ExitCode.USAGE, f"--text-field: {rows.path} has texts without fields; leave it out")
        return part.texts, (
            hedgerow.HedgerowTransformerClassifier if deep else hedgerow.HedgerowTextClassifier
        )
    raise Failure(ExitCode.DATA, f"{rows.path} has neither texts nor features to learn from")


def _fit(
    classifier: HedgerowClassifier,
    inputs: Any,
    part: Part,
    kept: KeptMembers | None,
    report: Report,
    plan: Plan,
    vocabulary: Vocabulary | None,
) -> None:
    from hedgerow.storage.container import ModelFileError
    from hedgerow.vocabulary import VocabularyWarning

    folder = None if kept is None else kept.folder
    try:
        # What a disk refuses here are members, not data.
        with failing_as(ExitCode.WRITE), training(), warnings_as_lines(VocabularyWarning):
            classifier.fit(
                inputs,
                part.Y,
                classes=part.label_names,
                checkpoint=folder,
                progress=report,
                vocabulary=vocabulary,
                ids=part.ids if plan.records else None,
                keep_records=plan.records,
            )
    except ModelFileError as error:
        raise Failure(
            ExitCode.MODEL, f"{reason(error)}; to start again, delete the folder {folder}"
        ) from error


def _extend(plan: Plan, classifier: HedgerowClassifier, inputs: Any, part: Part, report: Report) -> None:
    from .extending import check_same_labels

    check_same_labels(plan.rows.path, part, plan.extend, classifier)
    wanted = plan.settings["members"]
    # Each member has a tree of its own, whether that was said by number or not.
    named = classifier.trees is not None or plan.settings["trees"] is not None
    classifier.set_params(trees=None)
    more = wanted - classifier.members
    with training():
        classifier.add_members(inputs, part.Y, more, progress=report)
    classifier.set_params(trees=wanted if named else None)
