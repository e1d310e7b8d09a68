"""``hedgerow rollback``."""

from __future__ import annotations

import hedgerow.cli.options as options

from .failures import ExitCode, failing_as
from .terminal import say


def rollback(model: options.ModelFile) -> None:
    """Let the model that was promoted last give way to the one before it.

    MODEL.previous takes the place of MODEL, and what was there is MODEL.refused. A running server notices
    when it is told to load the file again (SIGHUP or POST /reload).

    \b
    Examples:
      hedgerow rollback tags.hedgerow
    """  # noqa: D301
    from hedgerow.comparison.model_files import ModelFiles, NoOtherModel

    from .inputs import load_model

    files = ModelFiles(model)
    if files.has_previous:
        load_model(files.previous)  # a damaged file must not take the place of a sound one
    with failing_as(ExitCode.MODEL, NoOtherModel):
        files.roll_back(also_path=True)
    say(f"{model} is the previous model again; the newer one is {files.refused}")
