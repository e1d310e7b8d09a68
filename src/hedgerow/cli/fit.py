"""``hedgerow fit``."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from hedgerow.data import DataError, Part, read_part
from hedgerow.deep.extra import is_first, load_torch
from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.estimators.loading import load
from hedgerow.estimators.text import HedgerowTextClassifier
from hedgerow.estimators.transformer import HedgerowTransformerClassifier
from hedgerow.features.tfidf import NoWordsError
from hedgerow.storage.atomic_file import check_target
from hedgerow.storage.container import ModelFileError
from hedgerow.training.checkpoint import Checkpoint

from .failures import ExitCode, Failure, failing_as, reason
from .inputs import no_labels, no_rows
from .terminal import Report, cell, human_bytes, plain, print_json, progress_bar

_TRAINS_MEMBERS = ("bagging", "boosting", "boosted-bagging")
_PLACE = ("device", "cache")


@dataclass(frozen=True)
class Extension:
    """A model that gets more members.

    Attributes
    ----------
    model : Path
        Its file.
    given : frozenset of str
        Names of the settings that were asked for, rather than left at their defaults: they must be those of
        the model, but for where a transformer computes and keeps embeddings.
    """

    model: Path
    given: frozenset[str]


def run_fit(
    data: Path,
    model: Path,
    settings: dict[str, Any],
    base: str,
    place: dict[str, Any],
    threads: int,
    site: dict[str, str | None],
    labels_field: str,
    extension: Extension | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Read, train, save and tell; what would fail at the end fails at the start.

    `base` is "linear" or "transformer", `place` says where the latter computes and keeps embeddings, `site`
    has the cluster, to which this process is connected, and the memory budget of the former.
    """
    old = None if extension is None else _open_extendable(extension, settings)
    deep = base == "transformer" or isinstance(old, HedgerowTransformerClassifier)
    in_blocks = any(site.values())
    if deep and in_blocks:
        name = "cluster" if site["cluster"] else "memory"
        raise Failure(ExitCode.USAGE, f"--{name}: a transformer is fitted as one piece; leave it out")
    if deep:
        _check_deep(place["device"], settings if old is None else {})
    kept = None
    if old is None and (deep or in_blocks or settings["method"] in _TRAINS_MEMBERS):
        several = deep or settings["method"] in _TRAINS_MEMBERS
        kept = _KeptMembers(Path(f"{model}.members"), settings["members"] if several else 1)
        kept.tell()
    start = time.perf_counter()
    before = _identity(model)
    try:
        with progress_bar() as report:
            with failing_as(ExitCode.DATA, DataError):
                part = read_part(
                    data,
                    "train",
                    labels_field=labels_field,
                    threads=threads,
                    progress=lambda share: report(share, "reading"),
                )
            inputs, estimator = _choose(data, part, labels_field, deep)
            own = place if deep else site
            if extension is None or old is None:
                classifier = estimator(**settings, **own, n_jobs=threads or -1)
                _fit(classifier, inputs, part, kept, report)
            else:
                _check_same_data(data, part, extension.model, old, estimator)
                classifier = old.set_params(**own, n_jobs=threads or -1)
                _extend(classifier, inputs, part, settings, report)
            if not is_first():  # of several processes, one writes
                return
            report(0.0, "saving")
            with failing_as(ExitCode.WRITE):
                classifier.save(model, overwrite=overwrite)
        if kept is not None:
            with failing_as(ExitCode.WRITE):
                kept.delete()
        _tell(model, classifier, part, list(settings), time.perf_counter() - start, as_json)
    except KeyboardInterrupt:
        if _identity(model) != before:
            left = f"{model} is saved"
        else:
            left = kept.left_behind() if kept else "nothing was written"
        raise Failure(ExitCode.INTERRUPTED, left) from None


def _identity(path: Path) -> tuple[int, int] | None:
    """What differs once a file was replaced."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns


def _tell(
    model: Path,
    classifier: HedgerowClassifier,
    part: Part,
    settings: list[str],
    seconds: float,
    as_json: bool,
) -> None:
    about = classifier.describe()
    summary: dict[str, Any] = {
        "model": str(model),
        "bytes": model.stat().st_size,
        "method": about["method"],
        "members": about["members"],
        "rows": part.n,
        "labels": about["labels"],
        "seconds": round(seconds, 3),
        "settings": {name: about["parameters"][name] for name in settings},
    }
    tuned = [report.to_dict() for report in getattr(classifier, "fine_tuning_", []) if report.tokens]
    if tuned:
        summary["fine_tuning"] = tuned
    if as_json:
        print_json(summary)
        return
    console = Console(soft_wrap=True, highlight=False)
    members = "1 member" if summary["members"] == 1 else f"{summary['members']:,} members"
    kind = f"{human_bytes(summary['bytes'])}; {summary['method']}, {members}"
    console.print(
        cell(f"Saved {model} ({kind}): {summary['labels']:,} labels learned from")
        + cell(f" {summary['rows']:,} rows in {summary['seconds']:.1f} s.")
    )
    if tuned:
        tokens, spent = (sum(of[part] for of in tuned) for part in ("tokens", "seconds"))
        console.print(
            cell(f"Fine-tuning read {tokens:,} tokens in {spent:.0f} s, {tokens / spent:,.0f} a second.")
        )
    console.print(cell(f"Next: hedgerow predict {model} INPUT, or hedgerow inspect {model}", "dim"))


def check_new_file(path: Path | str, overwrite: bool) -> None:
    """Refuse a target that cannot be written, before any long work."""
    try:
        check_target(path, overwrite)
    except FileExistsError as error:
        if overwrite:
            raise Failure(ExitCode.WRITE, reason(error)) from error
        raise Failure(
            ExitCode.WRITE, f"{path} exists already; choose another name, or replace it with --overwrite"
        ) from error
    except OSError as error:
        raise Failure(ExitCode.WRITE, reason(error)) from error


def _check_deep(device: str, settings: dict[str, Any]) -> None:
    """Refuse now what could not be fine-tuned later."""
    with failing_as(ExitCode.USAGE, ValueError, ImportError):
        load_torch()
        from hedgerow.deep.device import choose_device

        choose_device(device)
        if "encoder" in settings:
            HedgerowTransformerClassifier(**settings).check_encoder()


def _choose(data: Path, part: Part, labels_field: str, deep: bool) -> tuple[Any, type[HedgerowClassifier]]:
    if part.n == 0:
        raise no_rows(data)
    if part.Y is None or part.Y.nnz == 0:
        raise no_labels(data, part, labels_field, "learn from")
    if part.X is not None:
        if deep:
            raise Failure(
                ExitCode.DATA, f"{data} has features and no texts, which a transformer reads; give it texts"
            )
        return part.X, HedgerowClassifier
    if part.texts is not None:
        return part.texts, HedgerowTransformerClassifier if deep else HedgerowTextClassifier
    raise Failure(ExitCode.DATA, f"{data} has neither texts nor features to learn from")


@dataclass(frozen=True)
class _KeptMembers:
    """The folder beside the model with the members that are done."""

    folder: Path
    wanted: int

    def tell(self) -> None:
        """Say on stderr what is there of an earlier run."""
        if self.folder.exists() and not self.folder.is_dir():
            raise Failure(
                ExitCode.WRITE,
                f"{self.folder} is a file, but finished members are kept in a folder of that name;"
                " move it away, or choose another MODEL",
            )
        if found := self.count():
            print(f"hedgerow: {self._share(found)} found in {plain(self.folder)}", file=sys.stderr)
        elif blocks := self.blocks():
            print(f"hedgerow: {blocks:,} finished blocks found in {plain(self.folder)}", file=sys.stderr)
        elif self.encoders():
            print(f"hedgerow: the state of fine-tuning found in {plain(self.folder)}", file=sys.stderr)

    def count(self) -> int:
        """How many members are done."""
        return len(list(self.folder.glob("member-*.hedgerow")))

    def blocks(self) -> int:
        """How many blocks of other members are done."""
        return len(list(self.folder.glob("block-*.hedgerow")))

    def encoders(self) -> list[Path]:
        """Files with the state of fine-tuning."""
        return sorted(self.folder.glob("encoder-*.hedgerow"))

    def left_behind(self) -> str:
        """What an interrupt leaves: members, blocks of them, or nothing at all."""
        if (blocks := self.blocks()) and not self.count():
            return f"{blocks:,} blocks are kept in {self.folder}; the same command goes on from there"
        if found := self.count():
            verb = "is" if found == 1 else "are"
            return f"{self._share(found)} {verb} kept in {self.folder}; the same command goes on from there"
        if self.encoders():
            return f"the state of fine-tuning is kept in {self.folder}; the same command goes on from there"
        if any(self.folder.glob("tree-*.hedgerow")):
            return f"a label tree is kept in {self.folder}; the same command goes on from there"
        with contextlib.suppress(OSError):  # not there, or not ours alone
            self.folder.rmdir()
        return "nothing was written"

    def delete(self) -> None:
        """Remove the members and what a crash left of one; other files stay, and so does their folder."""
        for path in [
            *self.folder.glob(".member-*.tmp"),
            *self.folder.glob(".encoder-*.tmp"),
            *self.folder.glob(".block-*.tmp"),
            *self.folder.glob(".tree-*.tmp"),
            *self.encoders(),
        ]:
            path.unlink()
        Checkpoint(self.folder, fingerprint="", labels=0).clear()

    def _share(self, found: int) -> str:
        return f"{found} of {self.wanted} member{'' if self.wanted == 1 else 's'}"


def _fit(
    classifier: HedgerowClassifier, inputs: Any, part: Part, kept: _KeptMembers | None, report: Report
) -> None:
    folder = None if kept is None else kept.folder
    try:
        # What a disk refuses here are members, not data.
        with failing_as(ExitCode.WRITE):
            _train(
                lambda: classifier.fit(
                    inputs, part.Y, classes=part.label_names, checkpoint=folder, progress=report
                )
            )
    except ModelFileError as error:
        raise Failure(
            ExitCode.MODEL, f"{reason(error)}; to begin anew, delete the folder {folder}"
        ) from error


def _extend(
    classifier: HedgerowClassifier, inputs: Any, part: Part, settings: dict[str, Any], report: Report
) -> None:
    wanted = settings["members"]
    # Each member has a tree of its own, whether that was said by number or not.
    named = classifier.trees is not None or settings["trees"] is not None
    classifier.set_params(trees=None)
    more = wanted - classifier.members
    _train(lambda: classifier.add_members(inputs, part.Y, more, progress=report))
    classifier.set_params(trees=wanted if named else None)


def _train(train: Callable[[], object]) -> None:
    try:
        train()
    except ModelFileError:
        raise
    except ImportError as error:
        raise Failure(ExitCode.USAGE, reason(error)) from error
    except NoWordsError as error:
        raise Failure(
            ExitCode.DATA,
            "no word is in more than one of the texts, and only from such words can be learned; add texts",
        ) from error
    except (ValueError, TypeError) as error:
        # scikit-learn's class for parameters out of range; whatever else does not fit is in the data.
        kinds = ("InvalidParameterError", "BudgetTooSmallError")
        wrong = type(error).__name__ in kinds
        raise Failure(ExitCode.USAGE if wrong else ExitCode.DATA, reason(error)) from error


def _open_extendable(extension: Extension, settings: dict[str, Any]) -> HedgerowClassifier:
    """Load the model and refuse now what could not be extended later."""
    path = extension.model
    with failing_as(ExitCode.MODEL, ModelFileError):
        model = load(path)
    about = model.describe()
    members, trees = about["members"], about["trees"]
    if model.method not in _TRAINS_MEMBERS:
        raise Failure(
            ExitCode.MODEL,
            f"--extend {path}: it was fitted with --method {model.method}, which trains one tree only;"
            " fit an ensemble anew, such as with --method bagging",
        )
    if trees != members:
        raise Failure(
            ExitCode.MODEL,
            f"--extend {path}: its {members} members share {trees} trees; fit all members anew",
        )
    if not isinstance(model.random_state, int):
        raise Failure(
            ExitCode.MODEL,
            f"--extend {path}: it was imported, or fitted without a seed; fit all members anew",
        )
    if settings["members"] <= members:
        raise Failure(
            ExitCode.USAGE, f"--extend {path}: it has {members} members already; ask for more with --members"
        )
    if settings["trees"] not in (None, settings["members"]):
        raise Failure(ExitCode.USAGE, "--extend gives every new member a tree of its own; leave out --trees")
    params = model.get_params(deep=False)
    for name in sorted(extension.given - {"members", "trees"}):
        option = "seed" if name == "random_state" else name.replace("_", "-")
        if name not in params:
            raise Failure(
                ExitCode.USAGE, f"--{option} is for a transformer, but {path} has none; leave it out"
            )
        used = params[name]
        if name not in _PLACE and settings[name] != used:
            raise Failure(
                ExitCode.USAGE,
                f"--{option} is {settings[name]}, but {path} was fitted with {used}; leave it out, or fit"
                " anew without --extend",
            )
    return model


def _check_same_data(
    data: Path, part: Part, path: Path, model: HedgerowClassifier, estimator: type[HedgerowClassifier]
) -> None:
    """Refuse data that the model cannot have been fitted to, as far as it remembers them."""
    if type(model) is not estimator:
        raise Failure(
            ExitCode.DATA, f"{data} needs a {estimator.__name__}, but {path} holds a {type(model).__name__}"
        )
    known = model.classes_.tolist()
    columns = 0 if part.Y is None else part.Y.shape[1]
    found: list[Any] = list(range(columns) if part.label_names is None else part.label_names)
    if found != known:
        raise Failure(
            ExitCode.DATA,
            f"{data} has other labels than {path} was fitted to ({_difference(found, known)});"
            " --extend needs the same DATA",
        )


def _difference(found: list[Any], known: list[Any]) -> str:
    if new := sorted(set(found) - set(known), key=str):
        return f"{new[0]!r} is new"
    if lost := sorted(set(known) - set(found), key=str):
        return f"{lost[0]!r} is missing"
    return "in another order"
