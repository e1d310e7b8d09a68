"""
The native engine of hedgerow. Private: use the classes of the package.
"""

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy
import numpy.typing
from numpy.typing import NDArray


def simd_level() -> str:
    """The kernels in use: baseline, v3, v4 or v4_vbmi2."""

class Rows:
    """
    A CSR matrix: int64 indptr, int32 indices, float32 values (None: all ones).
    """

    def __init__(self, indptr: numpy.typing.NDArray[numpy.int64], indices: numpy.typing.NDArray[numpy.int32], values: numpy.typing.NDArray[numpy.float32] | None, columns: int) -> None: ...

    def fault(self, threads: int = 0) -> tuple[str, int, int, float] | None:
        """
        The first fault as (kind, row, column, value), or None when the matrix is sound.
        """

    def arrays(self) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.float32], dict(shape=(None,), writable=False)] | None, int]:
        """The arrays, not copied, and the number of columns."""

    def hashes(self, threads: int = 0) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]:
        """A hash of every row, by which it is known again."""

class GrownTree:
    """
    A label tree: begins of the children of each layer, and the labels in order.
    """

    @property
    def begins(self) -> list[Annotated[NDArray[numpy.int32], dict(shape=(None,))]]: ...

    @property
    def labels(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

class LabelFeatures:
    """A CSR matrix with a row per label."""

    @property
    def indptr(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def indices(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def values(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

def aggregate_labels(X: Rows, rows_of_label: Rows, costs: numpy.typing.NDArray[numpy.float32] | None, normalise: bool, threads: int, progress: object | None) -> LabelFeatures:
    """PIFA: the normalised sum of each label's rows."""

def grow_tree(label_features: Rows, labels: numpy.typing.NDArray[numpy.int32], branching: int, leaf_size: int, iterations: int, seed: int, threads: int, progress: object | None, scratch_folder: str = '', most_bytes: int = 0) -> GrownTree:
    """Clusters labels into a tree."""

def check_tree(begins: Sequence[numpy.typing.NDArray[numpy.int32]], labels: numpy.typing.NDArray[numpy.int32]) -> None:
    """Raises ValueError unless this is a label tree."""

class TopLabels:
    """The best labels of each row and their probabilities, (rows, k)."""

    @property
    def labels(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None, None))]: ...

    @property
    def probabilities(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]: ...

class GraftedTree:
    """A model with other weights, and how many more it has."""

    @property
    def model(self) -> TreeModel: ...

    @property
    def more_weights(self) -> int: ...

class BestNodes:
    """
    The best nodes of each row and the logarithms of their probabilities, (rows, k).
    """

    @property
    def nodes(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None, None))]: ...

    @property
    def logs(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]: ...

class ChunkEntries:
    """The weights of a chunk, entry by entry, and the bias of each lane."""

    @property
    def features(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def lanes(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def weights(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    @property
    def bias(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

class TreeModel:
    """A label tree with its weights."""

    @staticmethod
    def open(begins: Sequence[numpy.typing.NDArray[numpy.int32]], labels: numpy.typing.NDArray[numpy.int32], features: int, transform: str, members: int, parts: int, table: numpy.typing.NDArray[numpy.uint64], weights: numpy.typing.NDArray[numpy.uint8], deep: bool, threads: int) -> TreeModel: ...

    def top(self, X: Rows, k: int, beam: int, normalise: bool, best_first: bool, threads: int, progress: object | None, subset: LabelSubset | None = None) -> TopLabels:
        """The best k labels of each row, all or those of a subset."""

    def best_nodes(self, X: Rows, layer: int, k: int, beam: int, normalise: bool, threads: int) -> BestNodes:
        """The best k nodes of a layer for each row."""

    def table(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None, None))]:
        """
        One row per chunk: begin, bytes, lanes, home buckets, buckets, unit shift.
        """

    def block(self, chunk: int) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)]:
        """The bytes of a chunk, not copied."""

    def chunk_entries(self, chunk: int) -> ChunkEntries:
        """The weights of a chunk."""

    def expect(self, shared: int, first: int, last: int, threads: int) -> None:
        """
        Nearly every row has all features from `first` to `last` - 1, and others from `shared` on are not for this model; changes no result.
        """

def merge(models: Sequence[TreeModel], threads: int, progress: object | None) -> TreeModel:
    """One model with the members of several that share a tree."""

def graft(old: TreeModel, begins: Sequence[numpy.typing.NDArray[numpy.int32]], labels: numpy.typing.NDArray[numpy.int32], origins: Sequence[numpy.typing.NDArray[numpy.int32]], weights: Rows, given: numpy.typing.NDArray[numpy.uint8], threads: int) -> GraftedTree:
    """
    A model over a tree with other labels; of some, weights are given, the others keep theirs.
    """

def assemble(begins: Sequence[numpy.typing.NDArray[numpy.int32]], labels: numpy.typing.NDArray[numpy.int32], features: int, transform: str, nodes: Sequence[tuple[numpy.typing.NDArray[numpy.int32], numpy.typing.NDArray[numpy.int32], numpy.typing.NDArray[numpy.float32], numpy.typing.NDArray[numpy.float32]]], parts: int = 3) -> TreeModel:
    """A model from (features, lanes, weights, bias) of each inner node."""

class TrainedTree:
    """A model, the passes over the data, and the weights that were kept."""

    @property
    def model(self) -> TreeModel: ...

    @property
    def passes(self) -> int: ...

    @property
    def weights(self) -> int: ...

class AskedTree:
    """
    A model, and what it said of each row that was held out before it learned from it.
    """

    @property
    def model(self) -> TreeModel: ...

    @property
    def passes(self) -> int: ...

    @property
    def weights(self) -> int: ...

    @property
    def indptr(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def labels(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def parents(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    @property
    def scores(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

class AmendedTree:
    """
    A model brought up to date, how many weights more it has, how many classifiers were solved again, and when each was, layer by layer.
    """

    @property
    def model(self) -> TreeModel: ...

    @property
    def passes(self) -> int: ...

    @property
    def more_weights(self) -> int: ...

    @property
    def solved(self) -> int: ...

    @property
    def when(self) -> list: ...

class TrainedChunks:
    """The chunks of some nodes: their table and bytes."""

    @property
    def table(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None, None))]: ...

    @property
    def bytes(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...

    @property
    def passes(self) -> int: ...

    @property
    def weights(self) -> int: ...

class WrongLabels:
    """Labels of each row, as a CSR matrix has them."""

    @property
    def indptr(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def indices(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

def train(X: Rows, Y: Rows, begins: Sequence[numpy.typing.NDArray[numpy.int32]], labels: numpy.typing.NDArray[numpy.int32], costs: numpy.typing.NDArray[numpy.float32] | None, negatives: Rows | None, negative_share: float, loss: str, C: float, positive_cost: float, negative_cost: float, bias: float, tolerance: float, max_passes: int, weight_threshold: float, matcher_beam: int, normalise: bool, seed: int, threads: int, progress: object | None) -> TrainedTree:
    """Fits a tree."""

def train_asked(X: Rows, Y: Rows, begins: Sequence[numpy.typing.NDArray[numpy.int32]], labels: numpy.typing.NDArray[numpy.int32], costs: numpy.typing.NDArray[numpy.float32] | None, held_out: numpy.typing.NDArray[numpy.int32], candidates: Rows | None, negative_share: float, loss: str, C: float, positive_cost: float, negative_cost: float, bias: float, tolerance: float, max_passes: int, weight_threshold: float, matcher_beam: int, normalise: bool, seed: int, threads: int, progress: object | None) -> AskedTree:
    """Fits a tree, and asks it about rows before it learns from them."""

def amend(old: TreeModel, X: Rows, Y: Rows, begins: Sequence[numpy.typing.NDArray[numpy.int32]], labels: numpy.typing.NDArray[numpy.int32], origins: Sequence[numpy.typing.NDArray[numpy.int32]], arrived: numpy.typing.NDArray[numpy.int32], solved: Sequence[numpy.typing.NDArray[numpy.int32]], now: int, renewal: float, lost: Rows | None, costs: numpy.typing.NDArray[numpy.float32] | None, negatives: Rows | None, negative_share: float, loss: str, C: float, positive_cost: float, negative_cost: float, bias: float, tolerance: float, max_passes: int, weight_threshold: float, matcher_beam: int, normalise: bool, seed: int, threads: int, progress: object | None) -> AmendedTree:
    """Brings a tree up to date with rows that are new."""

def train_block(X: Rows, Y: Rows, begins: Sequence[numpy.typing.NDArray[numpy.int32]], labels: numpy.typing.NDArray[numpy.int32], costs: numpy.typing.NDArray[numpy.float32] | None, negatives: Rows | None, matched: Rows | None, layer: int, first: int, last: int, negative_share: float, loss: str, C: float, positive_cost: float, negative_cost: float, bias: float, tolerance: float, max_passes: int, weight_threshold: float, matcher_beam: int, normalise: bool, seed: int, threads: int, progress: object | None, scratch_folder: str = '', most_bytes: int = 0) -> TrainedChunks:
    """Fits some nodes of a layer."""

def layer_work(X: Rows, Y: Rows, begins: Sequence[numpy.typing.NDArray[numpy.int32]], labels: numpy.typing.NDArray[numpy.int32], negatives: Rows | None, matched: Rows | None, layer: int) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
    """
    How much there is to do for each node of a layer: features of its rows, times panels.
    """

class HardNegatives:
    """The labels that the members trained so far get wrong."""

    def __init__(self, rows: int, room: int) -> None: ...

    def add(self, labels: numpy.typing.NDArray[numpy.int32], probabilities: numpy.typing.NDArray[numpy.float32], threads: int) -> None:
        """One more member's best labels."""

    def wrong(self, Y: Rows, count: int) -> WrongLabels:
        """Of the best labels of each row, those that Y does not have."""

class FoundInputs:
    """Sums over the candidates of each row, and how far they may be off."""

    @property
    def expected(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    @property
    def total(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    @property
    def data(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    @property
    def knowledge(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    @property
    def variance(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    @property
    def bound(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    @property
    def missed(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

class FoundLabels:
    """
    The best labels of each row with their measures; reach: (rows, wanted).
    """

    @property
    def labels(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None, None))]: ...

    @property
    def probability(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]: ...

    @property
    def total(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]: ...

    @property
    def data(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]: ...

    @property
    def knowledge(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]: ...

    @property
    def variance(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]: ...

    @property
    def inputs(self) -> FoundInputs: ...

    @property
    def reach(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]: ...

class FoundVotes:
    """The candidates of each row and the members' probabilities of them."""

    @property
    def indptr(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def labels(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def probs(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]: ...

    @property
    def bound(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    @property
    def missed(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    @property
    def classifiers(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    @property
    def reach(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]: ...

class ScoredCandidates:
    """Probabilities of candidates, and those below their leaves alone."""

    @property
    def probs(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]: ...

    @property
    def own(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]: ...

class LabelSubset:
    """The labels of a forest that may be answered."""

    def leaves_for(self, k: int) -> int:
        """
        How many leaves of a tree are enough for k of the labels; of the tree that needs most.
        """

class Forest:
    """Trees that vote together; with passes > 0, one tree under dropout."""

    def __init__(self, models: list, labels: int, share: float, passes: int, seed: int) -> None: ...

    @property
    def members(self) -> int: ...

    def subset(self, labels: numpy.typing.NDArray[numpy.int32]) -> LabelSubset:
        """Labels, by their numbers, to restrict a search to."""

    def uncertain(self, X: Rows, k: int, beam: int, top: int, missing: str, tolerance: float, floor: float, normalise: bool, threads: int, progress: object | None, reach: Sequence[tuple[int, int]] = [], subset: LabelSubset | None = None) -> FoundLabels:
        """
        The best k labels of each row, all or those of a subset, with their measures of uncertainty, and the reach wanted.
        """

    def votes(self, X: Rows, k: int, beam: int, top: int, missing: str, tolerance: float, floor: float, normalise: bool, threads: int, progress: object | None, reach: Sequence[tuple[int, int]] = [], subset: LabelSubset | None = None, headroom: float | None = None) -> FoundVotes:
        """
        Candidates, all or those of a subset, and members' probabilities, and the reach wanted. With a headroom, also what the classifiers of a single member say of the candidates, as `score` does.
        """

    def score(self, X: Rows, indptr: numpy.typing.NDArray[numpy.int64], labels: numpy.typing.NDArray[numpy.int32], normalise: bool, headroom: float, floor: float, threads: int) -> ScoredCandidates:
        """What the members say of the candidates of each row."""

    def reach(self, X: Rows, wanted: Sequence[tuple[int, int]], normalise: bool, threads: int) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]:
        """
        For each row and wanted (layer, nodes): the members' mean sum of the highest energies of nodes there, below the four best nodes of the layer above.
        """

class LabelMeasures:
    """Measures of labels or of rows."""

    @property
    def probability(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    @property
    def total(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    @property
    def data(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    @property
    def knowledge(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    @property
    def variance(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

class TrueMeasures:
    """Measures of true labels."""

    @property
    def probability(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    @property
    def total(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    @property
    def data(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    @property
    def knowledge(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    @property
    def variance(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

class RankedMeasures:
    """Measures of the best labels of each row."""

    @property
    def probability(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]: ...

    @property
    def total(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]: ...

    @property
    def data(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]: ...

    @property
    def knowledge(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]: ...

    @property
    def variance(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]: ...

class VoteMeasures:
    """Measures of every candidate, and their sums over each row."""

    @property
    def labels(self) -> LabelMeasures: ...

    @property
    def inputs(self) -> LabelMeasures: ...

class BestLabels:
    """
    The best labels of each row, their measures, and sums over all candidates.
    """

    @property
    def labels(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None, None))]: ...

    @property
    def measures(self) -> RankedMeasures: ...

    @property
    def sums(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]: ...

class Assessed:
    """Votes compared with the truth."""

    @property
    def auroc(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]: ...

    @property
    def aupr(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]: ...

    @property
    def sums(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]: ...

    @property
    def labels(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None, None))]: ...

    @property
    def best(self) -> RankedMeasures: ...

    @property
    def rank(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def true_labels(self) -> TrueMeasures: ...

def measure_votes(indptr: numpy.typing.NDArray[numpy.int64], probs: numpy.typing.NDArray[numpy.float32], unlearned: numpy.typing.NDArray[numpy.uint8] | None) -> VoteMeasures:
    """
    The measures of every candidate, and their sums over each row, in double precision. Of those marked as unlearned, all doubt is lack of knowledge.
    """

def best_labels(indptr: numpy.typing.NDArray[numpy.int64], labels: numpy.typing.NDArray[numpy.int32], probs: numpy.typing.NDArray[numpy.float32], unlearned: numpy.typing.NDArray[numpy.uint8] | None, ranked_by: numpy.typing.NDArray[numpy.float32] | None, k: int, threads: int) -> BestLabels:
    """
    The best k candidates of each row by mean probability, or by `ranked_by`, and all measures.
    """

def assess(indptr: numpy.typing.NDArray[numpy.int64], labels: numpy.typing.NDArray[numpy.int32], probs: numpy.typing.NDArray[numpy.float32], unlearned: numpy.typing.NDArray[numpy.uint8] | None, n_labels: int, truth_indptr: numpy.typing.NDArray[numpy.int64], truth_labels: numpy.typing.NDArray[numpy.int32], k: int, threads: int) -> Assessed:
    """
    Compares votes with the truth: what is right, and whether uncertainty finds what is wrong.
    """

def calibration_edges() -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
    """Where the bins of calibration begin, and the end of the last."""

def count_votes(indptr: numpy.typing.NDArray[numpy.int64], labels: numpy.typing.NDArray[numpy.int32], probs: numpy.typing.NDArray[numpy.float32], truth_indptr: numpy.typing.NDArray[numpy.int64], truth_labels: numpy.typing.NDArray[numpy.int32], group: numpy.typing.NDArray[numpy.uint8], allowed: numpy.typing.NDArray[numpy.uint8] | None, each: bool, best: int, counts: Annotated[NDArray[numpy.int64], dict(shape=(None, None, None, None), order='C', device='cpu')], threads: int) -> None:
    """
    Adds to counts, (members or 1, groups, bins, 4): best candidates, the true ones, others, the true ones.
    """

def apply_maps(labels: numpy.typing.NDArray[numpy.int32], probs: numpy.typing.NDArray[numpy.float32], group: numpy.typing.NDArray[numpy.uint8], values: numpy.typing.NDArray[numpy.float64], each: bool, odds: bool, threads: int) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]:
    """
    The probabilities as the maps, of shape (members or 1, groups, bins + 1), move them.
    """

def judge_candidates(labels: numpy.typing.NDArray[numpy.int32], probs: numpy.typing.NDArray[numpy.float32], scores: numpy.typing.NDArray[numpy.float32], coefficients: numpy.typing.NDArray[numpy.float64], range: numpy.typing.NDArray[numpy.float64], log_counts: numpy.typing.NDArray[numpy.float32], threads: int) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]:
    """
    What the judge makes of the members' probabilities of candidates: (candidates, members).
    """

def move_members(log_odds: numpy.typing.NDArray[numpy.float64], probs: numpy.typing.NDArray[numpy.float32], threads: int) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]:
    """
    The members' probabilities of candidates, moved by one factor on their odds to where their mean has these log-odds.
    """

def sum_boosted_trees(begins: numpy.typing.NDArray[numpy.int64], features: numpy.typing.NDArray[numpy.int32], thresholds: numpy.typing.NDArray[numpy.float64], left: numpy.typing.NDArray[numpy.int32], right: numpy.typing.NDArray[numpy.int32], values: numpy.typing.NDArray[numpy.float32], threads: int) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
    """The sum of the leaves that each row of `values` ends in: (rows,)."""

class XmcTextParser:
    """Parses the rows of the XMC repository's text format block by block."""

    def __init__(self, rows: int, features: int, labels: int) -> None: ...

    def feed(self, block: bytes, threads: int = 0) -> tuple[int, str] | None:
        """
        Parse whole lines. Returns None, or (line, message) of the first fault; lines count from 0.
        """

    def finish(self) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.float32], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))]]:
        """
        Returns (feature_indptr, features, values, label_indptr, labels) and leaves the parser empty.
        """

    @property
    def rows(self) -> int: ...

    @property
    def lines(self) -> int: ...

def format_xmc_rows(feature_indptr: numpy.typing.NDArray[numpy.int64], features: numpy.typing.NDArray[numpy.int32], values: numpy.typing.NDArray[numpy.float32], label_indptr: numpy.typing.NDArray[numpy.int64], labels: numpy.typing.NDArray[numpy.int32], threads: int = 0) -> bytes:
    """The lines of these rows in the XMC repository's text format, as bytes."""

class TextRow:
    """The weights of one text."""

    @property
    def indices(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def values(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

class TextReading:
    """What texts say: a CSR matrix of weights, and their wording."""

    @property
    def indptr(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def indices(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def values(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    @property
    def words(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def unknown_words(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def unknown_pairs(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def rarity(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

class Vocabulary:
    """Arrays of a vocabulary, hash tables included."""

    @property
    def word_bytes(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...

    @property
    def word_starts(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]: ...

    @property
    def word_table(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]: ...

    @property
    def pairs(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]: ...

    @property
    def pair_table(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]: ...

    @property
    def idf(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    @property
    def unspaced(self) -> bool: ...

    @property
    def marked(self) -> bool: ...

class Analyzer:
    """How texts are cut: into words, or n-grams of characters."""

    def __init__(self, characters: bool = False, bigrams: bool = False, shortest: int = 3, longest: int = 5, marks: bool = False) -> None: ...

class Stems:
    """Asks for the stems of words, and remembers them; for one vocabulary."""

    def __init__(self, language: int, usual: int, ask: Callable) -> None:
        """
        language is the number of one, or EACH_TEXT; usual is that of texts that show none, or NO_LANGUAGE.
        """

    @property
    def usual(self) -> int: ...

EACH_TEXT: int = -2

NO_LANGUAGE: int = -1

def languages() -> list[tuple[str, str]]:
    """Name and code of each language, in the order of their numbers."""

def guess_language(text: object) -> int:
    """The number of the language that function words speak for."""

def guess_languages(parts: Sequence[tuple], analyzer: Analyzer, threads: int) -> Annotated[NDArray[numpy.int8], dict(shape=(None,))]:
    """The same of records, from a tuple of texts for each of their parts."""

unicode_version: str = '14.0.0'

def tokenize(text: object, analyzer: Analyzer) -> list[str]: ...

def fit_vocabulary(texts: tuple, analyzer: Analyzer, stems: Stems | None, with_pairs: bool, min_count: int, max_terms: int, pairs_at_once: int, threads: int, languages: numpy.typing.NDArray[numpy.int8] | None = None) -> Vocabulary:
    """
    The terms in at least min_count texts; languages are those of the texts, if they were decided before.
    """

class Tfidf:
    """Text to tf-idf rows by a vocabulary, whose arrays are checked here."""

    def __init__(self, word_bytes: numpy.typing.NDArray[numpy.uint8], word_starts: numpy.typing.NDArray[numpy.uint64], word_table: numpy.typing.NDArray[numpy.uint64], pairs: numpy.typing.NDArray[numpy.uint64], pair_table: numpy.typing.NDArray[numpy.uint64], idf: numpy.typing.NDArray[numpy.float32], analyzer: Analyzer, stems: Stems | None) -> None: ...

    def read(self, texts: tuple, sublinear: bool, unknown_idf: float, rows: bool, wording: bool, threads: int, languages: numpy.typing.NDArray[numpy.int8] | None = None) -> TextReading:
        """
        Rows of a CSR matrix, and of each text: words, unknown_words, unknown_pairs, and rarity, the mean idf of its different words. What is not asked for is empty.
        """

    def row(self, text: object, sublinear: bool) -> TextRow:
        """The row of one text."""

    def written(self, text: object, language: int = -2) -> list[tuple[int, str]]:
        """Known terms of a text, each with the words that it stands for."""

    def term(self, id: int) -> str: ...

    def terms(self) -> list[str]: ...

class NameArrays:
    """Arrays of a trie of names."""

    @property
    def languages(self) -> Annotated[NDArray[numpy.int8], dict(shape=(None,))]: ...

    @property
    def stem_bytes(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...

    @property
    def stem_starts(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]: ...

    @property
    def language_ends(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]: ...

    @property
    def edges(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]: ...

    @property
    def edge_stems(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]: ...

    @property
    def names(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]: ...

    @property
    def entries(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def flags(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...

    @property
    def written(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]: ...

    @property
    def lowered(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]: ...

class NamesFound:
    """Entries whose names texts have, in the form of CSR."""

    @property
    def indptr(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def entries(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def count(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def outer(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def same_case(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def exact(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def first(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    @property
    def words(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def ambiguity(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def preferred(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...

    @property
    def shortened(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...

    @property
    def tokens(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

PREFERRED_NAME: int = 1

SHORTENED_NAME: int = 2

MOST_NAME_WORDS: int = 64

def build_names(texts: tuple, languages: numpy.typing.NDArray[numpy.int8], entries: numpy.typing.NDArray[numpy.int32], flags: numpy.typing.NDArray[numpy.uint8], stems: Stems) -> NameArrays:
    """The arrays of names, which are parallel columns."""

def nearest_names(directions: numpy.typing.NDArray[numpy.int8], lengths: numpy.typing.NDArray[numpy.float64], queries: numpy.typing.NDArray[numpy.int8], query_lengths: numpy.typing.NDArray[numpy.float64], count: int, threads: int) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None, None))], Annotated[NDArray[numpy.float32], dict(shape=(None, None))]]:
    """
    The names whose directions have the highest cosines with each query, and these: (queries, count) both.
    """

class NameMatcher:
    """Finds names by a trie, whose arrays are checked here."""

    def __init__(self, languages: numpy.typing.NDArray[numpy.int8], stem_bytes: numpy.typing.NDArray[numpy.uint8], stem_starts: numpy.typing.NDArray[numpy.uint64], language_ends: numpy.typing.NDArray[numpy.uint32], edges: numpy.typing.NDArray[numpy.uint32], edge_stems: numpy.typing.NDArray[numpy.uint32], names: numpy.typing.NDArray[numpy.uint32], entries: numpy.typing.NDArray[numpy.int32], flags: numpy.typing.NDArray[numpy.uint8], written: numpy.typing.NDArray[numpy.uint64], lowered: numpy.typing.NDArray[numpy.uint64], stems: Stems) -> None: ...

    def match(self, texts: tuple, threads: int) -> NamesFound:
        """Entries whose names each text has."""
