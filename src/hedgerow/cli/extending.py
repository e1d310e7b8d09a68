"""``hedgerow fit --extend``: more members for an ensemble that is there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hedgerow.data import Part
from hedgerow.estimators.features import HedgerowClassifier
from hedgerow.features.fields import Fields

from .failures import ExitCode, Failure
from .inputs import open_model
from .options import TEXTS, option_of

# Where a transformer computes and keeps embeddings: this may differ from one fit to the next.
PLACE = ("device", "cache")


def about_discarded(names: Sequence[str], path: Path) -> str:
    """That adding members discards these, and the way out."""
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    again = "learn it again" if len(names) == 1 else "learn them again"
    return (
        f"Other members vote otherwise, so {listed} of the old model {'is' if len(names) == 1 else 'are'}"
        f" discarded: probabilities are not calibrated, and decide guarantees nothing. To {again}: hedgerow"
        f" calibrate {path} HELD_OUT_DATA"
    )


def trains_members(method: str) -> bool:
    """Whether a method trains its members one by one."""
    return method in ("bagging", "boosting", "boosted-bagging")


def open_extendable(path: Path, settings: dict[str, Any], given: frozenset[str]) -> HedgerowClassifier:
    """Load the model and refuse now what could not be extended later.

    Settings that are `given` on the command line must be those of the model; defaults need not.
    """
    model = open_model(path).classifier
    about = model.describe()
    members, trees = about["members"], about["trees"]
    unfit = None
    if not trains_members(model.method):
        unfit = (
            f"it was trained with --method {model.method}, which trains one tree only; train an ensemble"
            " instead, such as with --method bagging"
        )
    elif model.judge:
        unfit = "its judge knows the members that it has; train all members again, without --extend"
    elif trees != members:
        unfit = f"its {members} members share {trees} trees; train all members again, without --extend"
    elif not isinstance(model.random_state, int):
        unfit = "it was imported, or trained without a seed; train all members again, without --extend"
    if unfit:
        raise Failure(ExitCode.MODEL, f"--extend {path}: {unfit}")
    if settings["members"] <= members:
        raise Failure(
            ExitCode.USAGE, f"--extend {path}: it has {members} members already; ask for more with --members"
        )
    if settings["trees"] not in (None, settings["members"]):
        raise Failure(ExitCode.USAGE, "--extend gives every new member a tree of its own; leave out --trees")
    params = model.get_params(deep=False)
    for name in sorted(given - {"members", "trees"}):
        option = option_of(name)
        if name not in params:
            kind = "texts, but {} reads features" if name in TEXTS else "a transformer, but {} has none"
            raise Failure(ExitCode.USAGE, f"--{option} is for {kind.format(path)}; leave it out")
        used = tuple(params[name]) if isinstance(params[name], list) else params[name]
        if name == "fields" and used is not None and Fields.of(used) == Fields.of(settings[name]):
            continue
        if name not in PLACE and settings[name] != used:
            raise Failure(
                ExitCode.USAGE,
                f"--{option} is {settings[name]}, but {path} was fitted with {used}; leave it out, or"
                " train again without --extend",
            )
    return model


def check_same_labels(data: str, part: Part, path: Path | None, model: HedgerowClassifier) -> None:
    """Refuse data with other labels than those of the model; `add_members` compares the rows, too."""
    known = model.classes_.tolist()
    columns = 0 if part.Y is None else part.Y.shape[1]
    found: list[Any] = list(range(columns) if part.label_names is None else part.label_names)
    if found != known:
        raise Failure(
            ExitCode.DATA,
            f"{data} has other labels than {path} was trained on ({_difference(found, known)});"
            " --extend needs the same DATA",
        )


def _difference(found: list[Any], known: list[Any]) -> str:
    if new := sorted(set(found) - set(known), key=str):
        return f"{new[0]!r} is new"
    if lost := sorted(set(known) - set(found), key=str):
        return f"{lost[0]!r} is missing"
    return "in another order"
