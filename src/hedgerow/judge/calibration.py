"""Calibration: of the labels with probability p, the share p is right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow import _native
from hedgerow.inputs.matrices import as_truth
from hedgerow.inputs.threads import threads_for
from hedgerow.judge.maps import BINS, EDGES, OTHERS, concave, fit_isotonic, fit_sigmoid, shrunk, sigmoid
from hedgerow.votes.votes import Votes

__all__ = ["GROUPINGS", "METHODS", "NEEDED", "TARGETS", "Calibration", "check_choice"]

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

METHODS = ("isotonic", "platt", "temperature", "beta")
GROUPINGS = ("all", "depth", "frequency")
TARGETS = ("mean", "members")
MOVES = ("log-odds", "linear")
SOURCES = ("held-out", "out-of-bag")

NEEDED = 50  # inputs
_POSITIVES = 25  # true labels among their candidates
_GROUPS = 5
_LEVELS = 64  # of the values that labels are grouped by, before groups are made of them
_LEAST_POSITIVES = 50  # of a group; smaller ones join their neighbours
# Of labels with the same probability, those among the best of their input are right more often than the
# others, by some 1.5 points on eurlex-4k, and people act on the best. So the others count less; they are so
# numerous that they still decide where few of the best are.
_BEST = 5
_WIDTHS = 256  # distances for which the largest distance after a map is computed


@dataclass(frozen=True, eq=False)
class Calibration:
    """Maps from the probabilities of a model to calibrated ones.

    A map rises strictly, from 0 at 0: one map for all labels keeps their order. It is learned from the
    candidates of inputs that the model was not trained on. True labels that the search did not find have no
    probability and do not count: calibration cannot repair what the search missed.

    With ``of="mean"``, g(p) is what the map makes of the mean p of the members. The odds of all members are
    multiplied by one factor, for which g(p) is their mean: in log-odds all move by the same, so that their
    disagreement, measured in log-odds, stays; what is below 2e-6 counts as 2e-6.
    They stay in [0, 1] and in their order, so that total uncertainty is still data + knowledge, and neither
    is negative. With ``of="members"`` every member has its own map, and
    the mean is that of the results.

    Attributes
    ----------
    method : {"isotonic", "platt", "temperature", "beta"}
        The family of maps.
    by : {"all", "depth", "frequency"}
        Which labels share a map.
    of : {"mean", "members"}
        What is mapped.
    moves : {"log-odds", "linear"}
        How members move with the mean. Files of earlier versions say "linear": where g <= p, a member's
        probability becomes p_m g / p, elsewhere 1 - (1 - p_m)(1 - g) / (1 - p). That wipes out most of the
        disagreement on improbable labels.
    source : {"held-out", "out-of-bag"}
        What it was learned from.
    rows, positives : int
        Number of inputs, and of true labels among their candidates.
    seen : int
        Inputs that were left out because the model was trained on them.
    fingerprint : str
        Hash of the inputs and their labels; empty if unknown.
    n_labels : int
        Number of labels of the model.
    group : uint8 array, shape (n_labels,)
        The group of each label.
    limits : float64 array, shape (groups, 2)
        Lowest and highest frequency, or depth, in each group; zeros with ``by="all"``.
    begins : int64 array, shape (maps + 1,)
        The knots of map i of "isotonic" are ``begins[i]`` to ``begins[i + 1] - 1``. Maps go by member (one,
        for the mean), then by group.
    x, y : float64 array
        Knots; maps are straight between them.
    shape : float64 array, shape (maps, 3)
        Of the other methods: a, b, c of the sigmoid of a ln p - b ln(1 - p) + c.

    Examples
    --------
    A model whose probabilities are too high:

    >>> draw = np.random.default_rng(0)
    >>> p = draw.random((2000, 2))
    >>> votes = Votes(np.arange(0, 4001, 2), np.tile([0, 1], 2000), p.reshape(-1, 1), 2)
    >>> truth = sp.csr_array(draw.random((2000, 2)) < p**2)
    >>> calibration = Calibration.learn(votes, truth, method="beta")
    >>> calibration.apply(Votes([0, 2], [0, 1], [[0.6], [0.9]], 2)).probs.round(1)
    array([[0.4],
           [0.8]], dtype=float32)
    """

    method: str
    by: str
    of: str
    source: str
    rows: int
    positives: int
    seen: int
    fingerprint: str
    n_labels: int
    group: npt.NDArray[np.uint8]
    limits: Floats
    begins: Counts
    x: Floats
    y: Floats
    shape: Floats
    moves: str = "log-odds"

    @classmethod
    def learn(
        cls,
        votes: Votes | Iterable[Votes],
        Y: Any,
        *,
        method: str = "isotonic",
        by: str = "all",
        of: str = "mean",
        label_values: npt.ArrayLike | None = None,
        allowed: npt.NDArray[np.bool_] | None = None,
        seen: int = 0,
        fingerprint: str = "",
        n_jobs: int | None = None,
    ) -> Calibration:
        """Learn from votes on inputs that the members were not trained on.

        Candidates are counted in some thousand bins, so memory does not grow with them.

        Parameters
        ----------
        votes : Votes, or iterable of Votes
            What the members say, as a whole or batch after batch.
        Y : sparse indicator matrix, shape (n, n_labels or more)
            The truth for all inputs.
        method, by, of : str
            As of the attributes.
        label_values : array, shape (n_labels,), optional
            What labels are grouped by, such as their frequencies in training; needed unless `by` is "all".
        allowed : bool array, shape (n, members), optional
            Which members were not trained on each input: those that are asked (out-of-bag). None: all. For
            the mean, only inputs count that at least the expected number of members can be asked about.
        seen : int
            Number of inputs that were left out before.
        fingerprint : str
            Hash of the inputs and labels.
        n_jobs : int or None
            Threads; None and -1 are all processors, -2 all but one. Results do not depend on it.

        Returns
        -------
        Calibration
        """
        check_choice("method", method, METHODS)
        check_choice("by", by, GROUPINGS)
        check_choice("of", of, TARGETS)
        tally: _Tally | None = None
        rows = sp.csr_array(Y).shape[0]
        done, used = 0, rows
        if allowed is not None and of == "mean":
            allowed = _enough(allowed)
            used = int(allowed.any(axis=1).sum())
        for batch in _batches(votes):
            if tally is None:
                truth = as_truth(Y, rows, batch.n_labels)
                levels = _levels(by, label_values, batch.n_labels)
                tally = _Tally(levels, of, batch.members)
            if done + len(batch) > rows:
                raise ValueError(f"there are votes on more inputs than the {rows} of Y")
            part = slice(done, done + len(batch))
            tally.add(batch, truth[part], None if allowed is None else allowed[part], threads_for(n_jobs))
            done += len(batch)
        if tally is None or done != rows:
            raise ValueError(f"there are votes on {done} inputs, but Y has {rows}")
        positives = tally.positives()
        if used < NEEDED or positives < _POSITIVES:
            raise ValueError(
                f"there is too little data to calibrate: {used} inputs with {positives} true labels among"
                f" their candidates; at least {NEEDED} inputs and {_POSITIVES} true labels are needed, and"
                " some hundred are better"
            )
        group, limits, begins, x, y, shape = tally.maps(method, by, label_values)
        source = "held-out" if allowed is None else "out-of-bag"
        return cls(
            method,
            by,
            of,
            source,
            used,
            positives,
            int(seen),
            fingerprint,
            len(group),
            group,
            limits,
            begins,
            x,
            y,
            shape,
        )

    @property
    def groups(self) -> int:
        """Number of groups of labels, each with its own map."""
        return len(self.limits)

    @property
    def keeps_order(self) -> bool:
        """Whether the best labels of an input are the same, in the same order, as without calibration."""
        return self.of == "mean" and self.groups == 1

    def apply(self, votes: Votes, *, n_jobs: int | None = None) -> Votes:
        """Calibrate votes.

        `bound` becomes the most that a probability can be off after the maps: the largest distance of two
        that were no farther apart than the old `bound`. `missed` becomes n_labels times the entropy of
        `bound`: always valid, rarely tight; 0 stays 0.

        Parameters
        ----------
        votes : Votes
            Of the same model.
        n_jobs : int or None
            Threads; None and -1 are all processors, -2 all but one. Results do not depend on it.

        Returns
        -------
        Votes
        """
        self.check_fits(votes.n_labels, votes.members)
        probs = self.moved(votes.labels, votes.probs, threads_for(n_jobs))
        bound, missed = self.certificate(votes.bound)
        return votes.but(probs=probs, bound=bound, missed=missed)

    def check_fits(self, n_labels: int, members: int) -> None:
        """Refuse votes of another model."""
        if n_labels != self.n_labels:
            raise ValueError(f"the calibration is for {self.n_labels} labels, but the votes have {n_labels}")
        if self.of == "members" and members != self._voices:
            raise ValueError(
                f"the calibration has a map for each of {self._voices} members, but {members} vote; calibrate"
                " again"
            )

    def moved(
        self, labels: npt.NDArray[np.int32], probs: npt.NDArray[np.float32], threads: int
    ) -> npt.NDArray[np.float32]:
        """The calibrated probabilities of candidates, shape (entries, members)."""
        each, odds = self.of == "members", self.moves == "log-odds"
        return _native.apply_maps(labels, probs, self.group, self._tables, each, odds, threads)

    def certificate(
        self, bound: npt.NDArray[np.float32] | None
    ) -> tuple[npt.NDArray[np.float32] | None, npt.NDArray[np.float32] | None]:
        """What becomes of `bound` and `missed`; see `apply`."""
        if bound is None:
            return None, None
        widths, apart = self._apart
        # Rounded up to the next width that was computed.
        off = np.where(bound > 0, apart[np.minimum(np.searchsorted(widths, bound), _WIDTHS - 1)], 0.0)
        half = np.minimum(off, 0.5)
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = np.where(off > 0, -(half * np.log(half) + (1 - half) * np.log1p(-half)), 0.0)
        above = np.float32(1 + 1e-6)  # rounding must not make it too small
        return off.astype(np.float32) * above, (self.n_labels * entropy).astype(np.float32) * above

    def describe(self) -> dict[str, Any]:
        """What it is, for people and programs."""
        about: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("method", "by", "of", "moves", "source", "rows", "positives", "seen", "fingerprint")
        }
        if self.by != "all":
            about["groups"] = self.limits.tolist()
        return about

    def to_header(self) -> dict[str, Any]:
        """Entries of a model file's header."""
        names = ("method", "by", "of", "moves", "source", "rows", "positives", "seen", "fingerprint")
        return {name: getattr(self, name) for name in names}

    def to_sections(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays for a model file."""
        names = ("limits", "begins", "x", "y", "shape", *(("group",) if self.groups > 1 else ()))
        return {f"calibration.{name}": getattr(self, name) for name in names}

    @classmethod
    def from_sections(
        cls, header: Mapping[str, Any], sections: Mapping[str, npt.NDArray[Any]], n_labels: int, members: int
    ) -> Calibration:
        """Take back what `to_header` and `to_sections` gave, after checking it."""
        header = {"moves": "linear", **header}  # the only way to move, before there was a choice
        for name, choices in (
            ("method", METHODS),
            ("by", GROUPINGS),
            ("of", TARGETS),
            ("moves", MOVES),
            ("source", SOURCES),
        ):
            if header[name] not in choices:
                raise ValueError(f"the calibration has the unknown {name} {header[name]!r:.40}")
        for name in ("rows", "positives", "seen"):
            if type(header[name]) is not int or header[name] < 0:
                raise ValueError(f"the calibration has the impossible number {header[name]!r:.40} of {name}")
        if not isinstance(header["fingerprint"], str):
            raise ValueError("the calibration has no fingerprint")
        arrays: dict[str, Any] = {
            name: sections[f"calibration.{name}"] for name in ("limits", "x", "y", "shape")
        }
        for name, array in arrays.items():
            if array.dtype != np.float64 or not np.isfinite(array).all():
                raise ValueError(f"the {name} of the calibration are not finite numbers")
        limits, begins = arrays["limits"], sections["calibration.begins"]
        if limits.ndim != 2 or limits.shape[1] != 2 or not 1 <= len(limits) <= 256:
            raise ValueError("the groups of the calibration have the wrong shape")
        group = np.zeros(n_labels, dtype=np.uint8)
        if len(limits) > 1:
            group = sections["calibration.group"]
            if group.dtype != np.uint8 or group.shape != (n_labels,) or group.max() >= len(limits):
                raise ValueError("the groups of the calibration do not fit the labels")
        maps = len(limits) * (members if header["of"] == "members" else 1)
        found = cls(**header, n_labels=n_labels, group=group, begins=begins, **arrays)
        found._check_maps(maps)
        return found

    def _check_maps(self, maps: int) -> None:
        x, y, shape, begins = self.x, self.y, self.shape, self.begins
        if self.method == "isotonic":
            if begins.dtype != np.int64 or begins.shape != (maps + 1,) or x.ndim != 1 or x.shape != y.shape:
                raise ValueError("the maps of the calibration have the wrong shape or number")
            if begins[0] != 0 or begins[-1] != len(x) or (np.diff(begins) < 2).any():
                raise ValueError("the maps of the calibration are cut wrongly")
            for begin, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
                own_x, own_y = x[begin:end], y[begin:end]
                if own_x[0] != 0 or own_x[-1] != 1 or own_y[0] != 0 or own_y[-1] > 1:
                    raise ValueError("a map of the calibration does not go from 0 to 1")
                if (np.diff(own_x) <= 0).any() or (np.diff(own_y) <= 0).any():
                    raise ValueError("a map of the calibration does not rise")
        elif shape.shape != (maps, 3) or not (shape[:, :2] > 0).all():
            raise ValueError("a map of the calibration does not rise, or there are too few")

    @property
    def _voices(self) -> int:
        maps = len(self.begins) - 1 if self.method == "isotonic" else len(self.shape)
        return maps // self.groups

    @cached_property
    def _tables(self) -> Floats:
        """The maps at the edges of the bins, shape (members or 1, groups, edges)."""
        if self.method == "isotonic":
            cuts = zip(self.begins[:-1].tolist(), self.begins[1:].tolist(), strict=True)
            tables = np.array([np.interp(EDGES, self.x[b:e], self.y[b:e]) for b, e in cuts])
        else:
            tables = np.array([sigmoid(EDGES, *own) for own in self.shape])
        return np.ascontiguousarray(tables.reshape(self._voices, self.groups, len(EDGES)))

    @cached_property
    def _apart(self) -> tuple[Floats, Floats]:
        """The largest distance of two probabilities after any map, by their distance before."""
        widths = np.geomspace(2.0**-40, 1.0, _WIDTHS)
        apart = np.zeros(_WIDTHS)
        for table in self._tables.reshape(-1, len(EDGES)):
            for number, width in enumerate(widths):
                # The steepest place begins or ends where the map bends.
                up = np.interp(EDGES + width, EDGES, table) - table
                down = table - np.interp(EDGES - width, EDGES, table)
                apart[number] = max(apart[number], up.max(), down.max())
        if self.of == "members":
            # Members may be off by different amounts, of which only the mean is known: by Jensen's
            # inequality, a concave function of the mean is enough.
            apart = concave(widths, apart)
        return widths, apart


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse what is not among the choices."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; choose from {', '.join(map(repr, choices))}")


def _enough(allowed: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Without the inputs that fewer members can be asked about than expected.

    The mean of few members is less sharp than that of all, and a map learned from it too cautious.
    """
    usual = np.ceil(np.exp(-1) * allowed.shape[1])
    return np.asarray(allowed & (allowed.sum(axis=1) >= usual)[:, None])


def _batches(votes: Votes | Iterable[Votes]) -> Iterator[Votes]:
    if isinstance(votes, Votes):
        yield votes
    else:
        yield from votes


def _levels(by: str, values: npt.ArrayLike | None, n_labels: int) -> npt.NDArray[np.uint8]:
    """At most 64 ascending levels of the values of labels; groups are made of neighbouring levels."""
    if by == "all":
        return np.zeros(n_labels, dtype=np.uint8)
    if values is None:
        raise ValueError(
            f"the model does not know the {by} of its labels, so it cannot calibrate by it; use by='all'"
        )
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.shape != (n_labels,) or not np.isfinite(numbers).all():
        raise ValueError(f"label_values has shape {numbers.shape}; a finite number for each label is needed")
    steps = np.unique(numbers)
    if len(steps) > _LEVELS:
        steps = steps[np.linspace(0, len(steps) - 1, _LEVELS).astype(np.int64)]
    return (np.searchsorted(steps, numbers, side="right") - 1).astype(np.uint8)


class _Tally:
    """Candidates, and how many of them are true, by probability."""

    def __init__(self, levels: npt.NDArray[np.uint8], of: str, members: int) -> None:
        self._levels, self._members = levels, members
        self._each = of == "members"
        voices = members if self._each else 1
        self._counts = np.zeros((voices, int(levels.max()) + 1, BINS, 4), dtype=np.int64)

    def add(
        self, votes: Votes, truth: sp.csr_array, allowed: npt.NDArray[np.bool_] | None, threads: int
    ) -> None:
        if (votes.n_labels, votes.members) != (len(self._levels), self._members):
            raise ValueError(
                f"a batch has {votes.n_labels} labels and {votes.members} members, but the first has"
                f" {len(self._levels)} and {self._members}"
            )
        if allowed is not None and allowed.shape != (len(votes), votes.members):
            raise ValueError(
                f"allowed has shape {allowed.shape} for {len(votes)} inputs and {votes.members} members"
            )
        asked = None if allowed is None else np.ascontiguousarray(allowed, dtype=np.uint8)
        _native.count_votes(
            votes.indptr,
            votes.labels,
            votes.probs,
            np.asarray(truth.indptr, dtype=np.int64),
            np.asarray(truth.indices, dtype=np.int32),
            self._levels,
            asked,
            self._each,
            _BEST,
            self._counts,
            threads,
        )

    def positives(self) -> int:
        found = self._counts[..., 1::2].sum()
        return int(found // self._members if self._each else found)

    def maps(
        self, method: str, by: str, values: npt.ArrayLike | None
    ) -> tuple[npt.NDArray[np.uint8], Floats, Counts, Floats, Floats, Floats]:
        """Groups of labels, their limits, and the maps: begins, x, y and shape."""
        group_of_level = _join(self._counts[..., 1::2].sum(axis=(0, 2, 3)))
        group = group_of_level[self._levels]
        groups = int(group_of_level.max()) + 1
        limits = np.zeros((groups, 2))
        if by != "all":
            numbers = np.asarray(values, dtype=np.float64)
            limits = np.array([[numbers[group == g].min(), numbers[group == g].max()] for g in range(groups)])
        counts = np.zeros((len(self._counts), groups, BINS, 2))
        for level, own in enumerate(group_of_level.tolist()):
            both = self._counts[:, level]
            counts[:, own] += both[..., :2] + OTHERS * both[..., 2:]
        fit = fit_isotonic if method == "isotonic" else fit_sigmoid
        found: list[Any] = []
        for voice in counts:
            everything = fit(voice.sum(axis=0), method)
            for own in voice:
                positives = own[:, 1].sum()
                alone = groups == 1 or not positives
                found.append(everything if alone else shrunk(fit(own, method), everything, positives))
        nothing: Floats = np.zeros(0)
        if method != "isotonic":
            return group, limits, np.zeros(0, dtype=np.int64), nothing, nothing, np.array(found)
        begins = np.concatenate([[0], np.cumsum([len(knots) for knots in found])]).astype(np.int64)
        knots = np.concatenate(found)
        x, y = np.ascontiguousarray(knots[:, 0]), np.ascontiguousarray(knots[:, 1])
        return group, limits, begins, x, y, np.zeros((0, 3))


def _join(positives: Counts) -> npt.NDArray[np.uint8]:
    """Levels joined to groups: neighbours, about as many true labels in each, and never too few."""
    wanted = max(1, min(_GROUPS, int(positives.sum()) // _LEAST_POSITIVES))
    least = positives.sum() / wanted
    group = np.zeros(len(positives), dtype=np.uint8)
    number, inside = 0, 0
    for level, own in enumerate(positives.tolist()):
        # A new group begins when this one is full, if enough is left to fill another.
        rest = positives[level:].sum()
        if inside >= max(0.9 * least, _LEAST_POSITIVES) and rest >= _LEAST_POSITIVES and number < wanted - 1:
            number, inside = number + 1, 0
        group[level] = number
        inside += own
    return group
