"""What a fitted classifier's vocabulary says of its labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError

from hedgerow.estimators.parameters import Parameters
from hedgerow.model import Model
from hedgerow.vocabulary.coverage import coverage
from hedgerow.vocabulary.vocabulary import Vocabulary

__all__ = ["Named"]


class Named(Parameters):
    """A classifier that may be fitted; then `model_` holds all that was learned, names of labels included."""

    model_: Model

    @property
    def vocabulary_(self) -> Vocabulary | None:
        """Names of the labels; None where the model has no vocabulary."""
        return self._fitted().vocabulary

    def name_of(self, labels: Any, lang: str | None = None) -> npt.NDArray[np.object_]:
        """The names of labels, by the model's vocabulary.

        Parameters
        ----------
        labels : array-like
            Labels, such as `labels` of what `top`, `predict_uncertain` and `decide` return, or ids of the
            vocabulary.
        lang : str, optional
            The language to prefer, such as "de"; by default the first of the vocabulary.

        Returns
        -------
        object array of the same shape
            Names; None for labels without one.

        Examples
        --------
        >>> from hedgerow import HedgerowTextClassifier, Vocabulary
        >>> texts, labels = ["a thorny shrub", "an evergreen tree"] * 2, [["t:1"], ["t:2"]] * 2
        >>> names = Vocabulary.from_names({"t:1": "hawthorn", "t:2": "holly"})
        >>> model = HedgerowTextClassifier(random_state=0).fit(texts, labels, vocabulary=names)
        >>> model.name_of(model.top(["thorny"], k=2).labels)
        array([['hawthorn', 'holly']], dtype=object)
        """
        naming = self._fitted().naming(lang)
        if naming is None:
            raise ValueError("the model has no vocabulary, so its labels have no names; call set_vocabulary")
        return naming(labels)

    def labels_in(self, *, scheme: str | None = None, subtree: str | None = None) -> list[Any]:
        r"""The labels that belong to a scheme of the vocabulary, or lie in a part of its hierarchy.

        Parameters
        ----------
        scheme : str, optional
            A scheme of the vocabulary.
        subtree : str, optional
            The id of an entry: it and all that is below it, however deep.

        Returns
        -------
        list
            Labels as in `classes_`, for `only` and `exclude` of other methods. Entries that are no labels of
            the model are left out; with both parameters, labels of either are in it.

        Examples
        --------
        >>> from hedgerow import HedgerowTextClassifier, read_vocabulary
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "plants.tsv"
        >>> _ = path.write_text("id\tbroader\nshrub\nhawthorn\tshrub\nholly\n")
        >>> texts, labels = ["a thorny shrub", "an evergreen tree"] * 2, [["hawthorn"], ["holly"]] * 2
        >>> model = HedgerowTextClassifier(random_state=0)
        >>> model = model.fit(texts, labels, vocabulary=read_vocabulary(path))
        >>> shrubs = model.labels_in(subtree="shrub")
        >>> shrubs, model.top(["evergreen"], k=1, only=shrubs).labels
        (['hawthorn'], array([['hawthorn']], dtype=object))
        """
        return self._fitted().labels_in(
            () if scheme is None else (scheme,), () if subtree is None else (subtree,)
        )

    def about_vocabulary(self) -> dict[str, Any]:
        """The entry of `describe` about the vocabulary; none without one."""
        model = self._fitted()
        if model.vocabulary is None:
            return {}
        found = coverage(model.vocabulary, model.classes)
        about = {
            "entries": len(model.vocabulary),
            "languages": list(model.vocabulary.languages),
            "labels_with_a_name": found.named,
            "labels_without_an_entry": len(found.missing),
            "labels_that_left": [] if model.left is None else model.left.ids,
        }
        return {"vocabulary": about}

    def _fitted(self) -> Model:
        try:
            return self.model_
        except AttributeError:
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted; call fit first, or load a model file"
            ) from None
