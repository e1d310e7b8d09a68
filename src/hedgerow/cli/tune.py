"""``hedgerow tune``."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import hedgerow.cli.options as options

from .duration import parse_duration
from .failures import ExitCode, Failure, failing_as, reason
from .searching import SearchTask, difference, lines_of_trials, search
from .settings_file import settings_to_write
from .targets import check_new_file
from .terminal import Report, print_json, say, show_progress

if TYPE_CHECKING:
    from hedgerow import HedgerowClassifier, Tuning
    from hedgerow.data import Part

    from .inputs import Selection

_SAID = {
    "rivals": "other labels that each label is told apart from",
    "C": "how closely the data are fitted",
    "positive_cost": "how much a missed label counts, against a wrong one",
    "tolerance": "how precisely classifiers are solved; smaller is slower",
    "leaf_size": "most labels in a leaf of a member's label tree",
    "language": "whose stems words are reduced to",
    "min_count": "texts that a word must occur in",
    "ngrams": "2 counts pairs of words, too",
    "sublinear": "whether repeated words count less and less",
}


@dataclass(frozen=True)
class _Task:
    """What is tuned, and where the result goes."""

    rows: Selection
    settings: Path
    seconds: float
    by: str
    overwrite: bool

    @property
    def data(self) -> str:
        """The data, as messages name them."""
        return self.rows.path

    @property
    def journal(self) -> Path:
        """Where finished trials are kept."""
        return Path(f"{self.settings}.trials")

    @property
    def search(self) -> SearchTask:
        """What to search."""
        return SearchTask(self.seconds, self.by, self.journal)


def tune(
    data: options.TrainingData,
    settings: Annotated[Path, typer.Argument(help="The file of settings to write.", metavar="SETTINGS.json")],
    text_field: options.TextFields,
    time: Annotated[
        str, typer.Option(metavar="TIME", help="How long to search at most: 90s, 10m or 2h.")
    ] = "10m",
    method: Annotated[
        options.Method, typer.Option("--method", metavar="METHOD", help="How to train, as of hedgerow fit.")
    ] = options.Method.single,
    members: Annotated[
        int,
        typer.Option(
            min=1, max=4096, help="Members of the ensemble that you will train; three are tuned with."
        ),
    ] = 10,
    by: Annotated[
        str,
        typer.Option(
            metavar="MEASURE@K", help="What to improve: ndcg, precision or recall of the best K labels."
        ),
    ] = "ndcg@5",
    labels_field: options.LabelsField = "labels",
    label_separator: options.LabelSeparator = None,
    later_wins: options.LaterWins = False,
    seed: options.Seed = 0,
    threads: options.Threads = 0,
    overwrite: options.Overwrite = False,
    json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Search good settings for DATA, for `hedgerow fit --settings`.

    15 % of the training rows, at most 5,000, are held out to compare settings on. Test rows are not used. The
    search starts from the preset balanced and changes one thing at a time. A change is kept if it is better
    by more than the standard error of the difference. The search ends when nothing is better, or the time is
    over.

    Finished trials are kept in SETTINGS.json.trials: after Ctrl-C or a crash, the same command continues from
    there. To search on after the end, give more --time, and --overwrite.

    \b
    Examples:
      hedgerow tune records.jsonl settings.json
      hedgerow tune records.jsonl settings.json --method bagging --time 1h --by precision@1
      hedgerow fit records.jsonl tags.hedgerow --settings settings.json
    """  # noqa: D301
    seconds = _seconds(time)
    check_new_file(settings, overwrite)
    from .inputs import Selection, sources

    fields = dict(map(options.parse_field, text_field))
    rows = Selection(
        data,
        None,
        labels_field,
        threads,
        sources(fields or None),
        label_separator=label_separator,
        unique_ids=True,
        later_wins=later_wins,
    )
    task = _Task(rows, settings, seconds, by, overwrite)
    check_new_file(task.journal, overwrite=True)
    from hedgerow.evaluation import RankingMeasure

    try:
        RankingMeasure.parse(by)
    except ValueError as error:
        raise typer.BadParameter(str(error).removeprefix("by is "), param_hint="--by") from None
    parameters: dict[str, Any] = {
        "method": method.value,
        "members": members,
        "random_state": seed,
        "n_jobs": threads or -1,
    }
    try:
        with show_progress(verbose, whole=True) as report:
            part = _read(task, report)
            inputs, classifier = _choose(task, part, parameters, fields)
            watched = lines_of_trials() if verbose else report
            found = _search(task, classifier, inputs, part, watched)
    except KeyboardInterrupt:
        raise Failure(ExitCode.INTERRUPTED, task.search.left_behind or "nothing was written") from None
    about = {"path": task.data, "labels_field": labels_field, "seed": seed}
    content = settings_to_write(found, about)
    from hedgerow.storage.atomic_file import atomic_file

    with failing_as(ExitCode.WRITE), atomic_file(settings, overwrite=overwrite) as file:
        file.write(content)
    if json:
        import orjson

        print_json({"settings": str(settings), **orjson.loads(content)})
    else:
        _print(task, found, seed)


def _seconds(time: str) -> float:
    try:
        return parse_duration(time)
    except typer.BadParameter as error:
        raise typer.BadParameter(error.message, param_hint="--time") from None


def _read(task: _Task, report: Report) -> Part:
    """The training rows: of a folder its train part, of records with a split those of train."""
    part = task.rows.read_split(lambda share, what: report(0.0, what), "train")
    task.rows.check_rows(part)
    task.rows.labels_of(part, "learn from")
    return part


def _choose(
    task: _Task, part: Part, parameters: dict[str, Any], fields: dict[str, float]
) -> tuple[Any, HedgerowClassifier]:
    """What to learn from, and the classifier to tune."""
    import hedgerow

    if part.X is not None:
        if fields:
            raise Failure(
                ExitCode.USAGE, f"--text-field is for texts, but {task.data} has features; leave it out"
            )
        return part.X, hedgerow.HedgerowClassifier(**parameters)
    if part.texts is None:
        raise Failure(ExitCode.DATA, f"{task.data} has neither texts nor features to learn from")
    if fields and part.fields is None:
        raise Failure(ExitCode.USAGE, f"--text-field: {task.data} has texts without fields; leave it out")
    plain_fields = list(fields) if all(weight == 1 for weight in fields.values()) else fields
    return part.texts, hedgerow.HedgerowTextClassifier(fields=plain_fields or None, **parameters)


def _search(task: _Task, classifier: HedgerowClassifier, inputs: Any, part: Part, report: Report) -> Tuning:
    from hedgerow.estimators.validation_part import TooFewInputsError

    try:
        return search(task.search, classifier, inputs, part.Y, report)
    except TooFewInputsError as error:
        raise Failure(ExitCode.DATA, reason(error)) from error


def _print(task: _Task, found: Tuning, seed: int) -> None:
    sizes = found.data
    tried = len(found.trials)
    trials = "1 trial" if tried == 1 else f"{tried} trials"
    few = "" if found.trial_members is None else f" Each trial had {found.trial_members} members."
    say(
        f"Compared {trials} on {len(sizes.validation):,} of the {sizes.size.rows:,} training rows of"
        f" {task.data}, held out for this.{few}"
    )
    before, after = (100 * trial.outcome.figures[found.by] for trial in (found.trials[0], found.best))
    if found.changes:
        say("Chosen, starting from the preset balanced:")
        width = max(len(change.name) for change in found.changes)
        for change in found.changes:
            say(f"  {change.name:{width}}  {change.before} -> {change.after}  ({_SAID[change.name]})")
        gain = difference(found.gain.difference, found.gain.standard_error)
        say(f"{found.by}, %: {after:.2f}, with balanced {before:.2f}: {gain} (standard error).")
        say(
            "These rows chose the settings, so expect less on others; measure it with hedgerow evaluate.",
            "dim",
        )
    else:
        say(f"Nothing is better than the preset balanced: {found.by}, %: {before:.2f}.")
    if found.out_of_time:
        say("The time ended the search. To search on, give more --time, and --overwrite.", "dim")
    say(f"Saved {task.settings}; {task.journal} keeps the trials and can be deleted.")
    field = task.rows.labels_field or "labels"
    more = [] if field == "labels" else ["--labels-field", field]
    if task.rows.label_separator is not None:
        more += ["--label-separator", task.rows.label_separator]
    more += ["--later-wins"] if task.rows.later_wins else []
    more += [] if seed == 0 else ["--seed", str(seed)]
    line = ["hedgerow", "fit", *map(str, task.rows.paths), "MODEL", "--settings", str(task.settings), *more]
    say(f"Next: {shlex.join(line)}", "dim")
