"""Says in one line what goes wrong while a model learns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .failures import ExitCode, Failure, reason


@contextlib.contextmanager
def training() -> Iterator[None]:
    """Say in one line what goes wrong while a model learns, apart from broken files of members."""
    from hedgerow.features.tfidf import NoWordsError
    from hedgerow.inputs.parameters import ParameterError
    from hedgerow.storage.container import ModelFileError
    from hedgerow.training.memory import BudgetTooSmallError

    try:
        yield
    except (ModelFileError, Failure):
        raise
    except ImportError as error:
        raise Failure(ExitCode.USAGE, reason(error)) from error
    except NoWordsError as error:
        raise Failure(ExitCode.DATA, _with_options(reason(error))) from error
    except (ValueError, TypeError) as error:
        wrong = isinstance(error, ParameterError | BudgetTooSmallError)  # all else that does not fit is data
        raise Failure(ExitCode.USAGE if wrong else ExitCode.DATA, reason(error)) from error


def _with_options(message: str) -> str:
    return message.replace("min_count=", "--min-count ").replace("min_count", "--min-count")
