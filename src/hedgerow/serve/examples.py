"""Texts to try on the page."""

from __future__ import annotations

from hedgerow.data.sample import load_sample

from .served_model import ServedModel

# Held-out packages of the embedded sample, and what there is to see.
_SHOWN = {
    "armagetronad-dedicated": "a game server: the model is certain",
    "kmouth": "a speech aid: each member is unsure (data uncertainty)",
    "coco-cs": "a compiler generator: the members disagree (knowledge uncertainty)",
    "abook": "an address book for the terminal",
}
_RECIPE = (
    "Peel the apples and slice them. Melt the butter in a pan, add the sugar and a pinch of cinnamon,"
    " and stew the apples until they are soft. Spread them on the dough, fold it, brush it with egg yolk and"
    " bake it for half an hour until it is golden."
)


def examples_for(served: ServedModel) -> list[dict[str, str]]:
    """Texts of the embedded sample, and an out-of-distribution one; none for a model with other labels."""
    if not served.reads_texts:
        return []
    sample = load_sample()
    known = set(served.labels)
    shown = []
    for name, about in _SHOWN.items():
        row = sample.test_ids.index(name)
        if not known.issuperset(sample.test_labels[row][:1]):
            return []
        shown.append({"text": sample.test_texts[row], "about": about})
    return [*shown, {"text": _RECIPE, "about": "a recipe: out-of-distribution (OOD)"}]
