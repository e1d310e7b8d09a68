"""Long curves with no more points than can be seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .content import Figure, Scale, Series

# Wider than a figure is drawn, so that zooming a little shows no edges.
_COLUMNS = 1500


def thinned(figure: Figure) -> Figure:
    """Return the figure with the same look and fewer points.

    The x axis is cut into columns thinner than a pixel. Of the points of a line or a band in a column, the
    first, the last, the lowest and the highest remain, which draw the same picture as all of them. Series
    that are short, or whose x does not ascend, stay as they are.
    """
    return replace(figure, series=[_thinned(series, figure.x_scale) for series in figure.series])


def _thinned(series: Series, scale: Scale) -> Series:
    if series.kind not in ("line", "band") or len(series.x) <= 2 * _COLUMNS:
        return series
    curves = [np.asarray(of, np.float64) for of in (series.y, series.low, series.high) if len(of)]
    x = np.asarray(series.x, np.float64)
    usable = np.isfinite(x) if scale == "linear" else np.isfinite(x) & (x > 0)
    if not usable.any() or (np.diff(x[usable]) < 0).any():
        return series
    place = np.zeros(len(x))
    place[usable] = x[usable] if scale == "linear" else np.log10(x[usable])
    low, high = place[usable].min(), place[usable].max()
    column = np.floor((place - low) * (_COLUMNS / max(high - low, np.finfo(float).tiny)))
    column[~usable] = -1
    kept = _kept(column, curves)
    parts: dict[str, Any] = {
        name: np.asarray(of)[kept]
        for name, of in (("x", series.x), ("y", series.y), ("low", series.low), ("high", series.high))
        if len(of)
    }
    return replace(series, **parts)


def _kept(column: npt.NDArray[Any], curves: list[npt.NDArray[Any]]) -> npt.NDArray[np.intp]:
    starts = np.flatnonzero(np.diff(column, prepend=np.nan) != 0)
    kept = []
    for start, end in zip(starts, [*starts[1:], len(column)], strict=True):
        own = [curve[start:end] for curve in curves]
        if end - start <= 4 or not all(np.isfinite(part).all() for part in own):
            kept.append(np.arange(start, end))  # gaps must remain gaps
            continue
        ends = [part.argmin() for part in own] + [part.argmax() for part in own]
        kept.append(np.unique([0, end - start - 1, *ends]) + start)
    return np.concatenate(kept)
