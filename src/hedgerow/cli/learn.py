"""``hedgerow learn``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import hedgerow.cli.options as options

from .comparison_options import Accuracy, Deciding, Margin, PromoteIf
from .failures import ExitCode, Failure, failing_as
from .terminal import print_json, say, show_progress

if TYPE_CHECKING:
    from hedgerow.comparison.learning import Lesson, Reviewed


def learn(
    model: options.ModelFile,
    judge_on: Annotated[
        list[Path],
        typer.Option(
            metavar="DATA",
            help="Labelled data that decide whether the updated model replaces MODEL, which has not learned"
            " from them; of a folder its test part. Repeat for each file.",
        ),
    ],
    queue: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="QUEUE",
            help="The review queue of hedgerow serve. Default: MODEL.queue.sqlite.",
        ),
    ] = None,
    promote_if: Annotated[
        PromoteIf, typer.Option(help="What the updated model must be to replace MODEL.")
    ] = PromoteIf.no_worse,
    by: Deciding = Accuracy.ndcg_5,
    margin: Margin = 0.5,
    fail_if_refused: Annotated[
        bool,
        typer.Option("--fail-if-refused", help="End with exit status 9 if the updated model is refused."),
    ] = False,
    labels_field: options.LabelsField = "labels",
    threads: options.Threads = 0,
    json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> int:
    """Teach MODEL what was reviewed, and replace it if the result is no worse.

    Takes the reviewed texts from the queue, updates a copy of MODEL with those that it has not learned yet,
    compares both on --judge-on, and lets the copy take the place of MODEL if it is good enough. A running
    server loads it when it is told to (SIGHUP or POST /reload). hedgerow rollback goes back.

    A kill at any moment leaves MODEL whole, as it was or updated; the same command goes on.

    \b
    Examples:
      hedgerow learn tags.hedgerow --judge-on held-out.jsonl
      hedgerow learn tags.hedgerow --judge-on held-out.jsonl --from reviews.sqlite --promote-if better
    """  # noqa: D301
    from hedgerow.comparison import Judge, RowsWanted
    from hedgerow.comparison.learning import learn_reviewed
    from hedgerow.comparison.model_files import ChangedMeanwhile
    from hedgerow.comparison.results import ComparisonSettings
    from hedgerow.data import DataError
    from hedgerow.storage.container import ModelFileError

    reviewed = _reviewed(queue or Path(f"{model}.queue.sqlite"))
    rows = RowsWanted(tuple(judge_on), None, labels_field, None, threads)
    judge = Judge(rows, promote_if.value, ComparisonSettings(by.value, margin))
    with (
        show_progress(verbose) as report,
        failing_as(ExitCode.MODEL, ModelFileError, ChangedMeanwhile),
        failing_as(ExitCode.DATA, DataError, ValueError, TypeError),
    ):
        lesson = learn_reviewed(model, reviewed, judge, threads=threads, progress=report)
    if json:
        print_json(lesson.to_dict())
    else:
        _print(lesson, model)
    refused = lesson.promotion is not None and not lesson.promotion.promoted
    return int(ExitCode.WORSE) if fail_if_refused and refused else int(ExitCode.OK)


def _reviewed(queue: Path) -> Reviewed:
    from hedgerow.serve.queue_store import QueueError
    from hedgerow.serve.reviews import read_reviewed

    if not queue.exists():
        raise Failure(
            ExitCode.DATA,
            f"there is no review queue {queue}; review texts on the page of hedgerow serve, or name the queue"
            " with --from",
        )
    with failing_as(ExitCode.DATA, QueueError):
        return read_reviewed(queue)


def _print(lesson: Lesson, model: Path) -> None:
    known = f"; MODEL has learned {lesson.known:,} of them already" if lesson.known else ""
    say(f"{lesson.reviewed:,} texts are reviewed{known}.")
    if lesson.update is None or lesson.promotion is None:
        say("There is nothing new to learn.")
        return
    event = lesson.update.event
    say(f"Updated: {event.added:,} records added, {event.corrected:,} corrected.")
    say(f"The updated model is {lesson.promotion.words}.")
    if lesson.promotion.promoted:
        say(f"It is {model} now. To go back: hedgerow rollback {model}", "green")
    else:
        say(f"So {model} stays as it is; the updated model is {lesson.candidate}", "yellow")
