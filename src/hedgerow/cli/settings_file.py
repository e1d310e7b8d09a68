"""Files of settings: what ``hedgerow tune`` writes and ``hedgerow fit --settings`` takes."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import hedgerow.cli.options as options

from .failures import ExitCode, Failure, failing_as, reason
from .options import given

if TYPE_CHECKING:
    from hedgerow import HedgerowClassifier, Tuning

_FORMAT = 1
_LARGEST = 16 << 20  # bytes
_KINDS = {"HedgerowTextClassifier": "texts", "HedgerowClassifier": "features"}
# What belongs to a machine or a run: a file of settings may not set it.
_OWN = frozenset({"n_jobs", "cluster", "memory", "verbose", "random_state"})
_NOT_WITH = {"extend": "--extend", "preset": "--preset", "time_limit": "--time"}


@dataclass(frozen=True)
class TunedSettings:
    """Parameters from a file of settings, checked, and the classifier that they are for."""

    path: Path
    estimator: str
    parameters: dict[str, Any]

    def merge(
        self, settings: dict[str, Any], texts: dict[str, Any], asked: set[str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings of a fit, and those for texts: of the file, where the command line says nothing."""
        own = {name: value for name, value in self.parameters.items() if name not in asked}
        words = {name: value for name, value in own.items() if name in options.TEXTS}
        return settings | {name: own[name] for name in own.keys() - words.keys()}, texts | words

    def check_estimator(self, estimator: type[HedgerowClassifier], data: str) -> None:
        """Refuse settings for texts where there are features, and the other way round."""
        if estimator.__name__ != self.estimator:
            raise Failure(
                ExitCode.USAGE,
                f"--settings: {self.path} was tuned on {_KINDS[self.estimator]}, but {data} has"
                f" {_KINDS.get(estimator.__name__, 'other inputs')}; run hedgerow tune on {data}",
            )


def settings_to_write(tuning: Tuning, about: dict[str, Any]) -> bytes:
    """The content of a file of settings; `about` says what they were tuned on."""
    import numpy as np
    import orjson
    import scipy

    from hedgerow.estimators.parameters import plain_parameters

    estimator, best = tuning.estimator(), tuning.best.outcome
    parameters = {name: value for name, value in plain_parameters(estimator).items() if name not in _OWN}
    content = {
        "hedgerow_settings": _FORMAT,
        "estimator": type(estimator).__name__,
        "parameters": parameters,
        "changes": {change.name: [change.before, change.after] for change in tuning.changes},
        "validation": {
            "by": tuning.by,
            "balanced": tuning.trials[0].outcome.figures,
            "chosen": best.figures,
            "difference": tuning.gain.difference,
            "standard_error": tuning.gain.standard_error,
            "members": tuning.trial_members,
            "inputs": len(tuning.data.validation),
            "inputs_with_labels": len(best.scores),
        },
        "data": about | {"rows": tuning.data.size.rows, "fingerprint": tuning.data.fingerprint},
        "ended": "time" if tuning.out_of_time else "nothing better",
        "trials": [trial.to_dict() for trial in tuning.trials],
        "versions": {
            "hedgerow": metadata.version("hedgerow"),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
    }
    return orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n"


def read_settings(context: typer.Context, path: Path) -> TunedSettings:
    """Read a file of settings for a fit, and refuse what does not go with it."""
    for name in sorted(given(context) & set(_NOT_WITH)):
        raise typer.BadParameter(f"not with {_NOT_WITH[name]}", ctx=context, param_hint="--settings")
    if context.params.get("base") is options.Base.transformer:
        raise typer.BadParameter(
            "not with --base transformer, which is not tuned", ctx=context, param_hint="--settings"
        )
    return parse_settings(path, _content(path))


def parse_settings(path: Path, content: bytes) -> TunedSettings:
    """The settings in a file, all of them checked."""
    import orjson

    import hedgerow

    try:
        found = orjson.loads(content)
    except ValueError as error:
        raise _refused(path, f"is not JSON ({error})") from error
    if not isinstance(found, dict) or "hedgerow_settings" not in found:
        raise _refused(path, "has no entry 'hedgerow_settings'")
    if found["hedgerow_settings"] != _FORMAT:
        raise _refused(path, f"has format {found['hedgerow_settings']!r:.40}; this version reads {_FORMAT}")
    name, parameters = found.get("estimator"), found.get("parameters")
    if not isinstance(name, str) or name not in _KINDS:
        raise _refused(path, f"is for the estimator {name!r:.60}, and not for {' or '.join(_KINDS)}")
    if not isinstance(parameters, dict):
        raise _refused(path, "has no object 'parameters'")
    estimator = getattr(hedgerow, name)
    known = set(estimator().get_params()) - _OWN
    if unknown := sorted(parameters.keys() - known):
        raise _refused(path, f"sets {unknown[0]!r:.60}, which is not a setting")
    # JSON has no tuples.
    values = {
        key: tuple(value) if key in ("ngrams", "char_ngrams") and isinstance(value, list) else value
        for key, value in parameters.items()
    }
    if values.get("ngrams", (1, 1)) not in ((1, 1), (1, 2)):  # else seen only when texts are read
        raise _refused(path, f"has a value that cannot be: ngrams is {values['ngrams']!r:.40}")
    try:
        estimator(**values).check_parameters()
    except (ValueError, TypeError) as error:
        raise _refused(path, f"has a value that cannot be: {reason(error)}") from error
    return TunedSettings(path, name, values)


def _content(path: Path) -> bytes:
    with failing_as(ExitCode.USAGE):
        if path.is_file() and path.stat().st_size > _LARGEST:
            raise _refused(path, "is too large")
        return path.read_bytes()


def _refused(path: Path, problem: str) -> Failure:
    return Failure(
        ExitCode.USAGE,
        f"--settings: {path} {problem}; give a file that hedgerow tune wrote, or make one with: hedgerow tune"
        " DATA SETTINGS.json",
    )
