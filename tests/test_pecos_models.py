"""PECOS models become Hedgerow models that score as PECOS does."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.sparse import csc_matrix, csr_array, csr_matrix, load_npz, save_npz

import hedgerow
from hedgerow import HedgerowClassifier, import_pecos
from hedgerow.cli import main
from hedgerow.cli.failures import ExitCode
from hedgerow.data import DataError

Dense = npt.NDArray[np.float64]
Layers = list[tuple[Dense, Dense]]  # W and C, from the root down

CLOSE = 1e-5
FEATURES = 12
LABELS = 30


def random_layers(seed: int, sizes: tuple[int, ...] = (3, 8, LABELS), features: int = FEATURES) -> Layers:
    """Layers whose clusters are not in order; the last row of each W is the bias."""
    random = np.random.default_rng(seed)
    layers = []
    above = 1
    for nodes in sizes:
        W = random.normal(size=(features + 1, nodes)) * (random.random((features + 1, nodes)) < 0.6)
        C = np.zeros((nodes, above))
        C[np.arange(nodes), random.permutation(np.arange(nodes) % above)] = 1
        layers.append((W.astype(np.float32).astype(np.float64), C))
        above = nodes
    return layers


def write_folder(
    folder: Path, layers: Layers, transform: str = "l3-hinge", bias: float = 1.0, beam: int = 20
) -> Path:
    """What PECOS's XLinearModel.save writes."""
    features = layers[0][0].shape[0] - (bias > 0)
    ranker = folder / "ranker"
    ranker.mkdir(parents=True)
    name = "pecos.xmc.xlinear.model###XLinearModel"
    (folder / "param.json").write_text(json.dumps({"__meta__": {"class_fullname": name}}))
    stated = {"model": "HierarchicalMLModel", "depth": len(layers), "nr_features": features}
    (ranker / "param.json").write_text(json.dumps({**stated, "nr_labels": layers[-1][0].shape[1]}))
    for number, (W, C) in enumerate(layers):
        own = ranker / f"{number}.model"
        own.mkdir()
        stated = {
            "model": "MLModel",
            "nr_labels": W.shape[1],
            "nr_features": features,
            "nr_codes": C.shape[1],
            "bias": bias,
            "pred_kwargs": {"only_topk": beam, "post_processor": transform},
        }
        (own / "param.json").write_text(json.dumps(stated))
        save_npz(own / "W.npz", csc_matrix(W.astype(np.float32)), compressed=False)
        save_npz(own / "C.npz", csc_matrix(C.astype(np.float32)), compressed=False)
    return folder


def dense_walk(layers: Layers, X: Dense, transform: str, bias: float = 1.0) -> Dense:
    """Probabilities of all labels, (rows, labels), by PECOS's formulas in float64; 0 where no way leads."""
    rows = np.hstack([X, np.full((len(X), 1), bias)]) if bias > 0 else X
    reached = np.ones((len(X), 1))
    for W, C in layers:
        scores = rows @ W
        hinge = np.exp(-(np.maximum(0, 1 - scores) ** 3))
        here = hinge if transform == "l3-hinge" else 1 / (1 + np.exp(-scores))
        reached = here * (reached @ C.T)
    return reached


def inputs(seed: int = 0, rows: int = 25, features: int = FEATURES) -> Dense:
    random = np.random.default_rng(1000 + seed)
    dense = random.normal(size=(rows, features)) * (random.random((rows, features)) < 0.5)
    dense[0] = 0
    return dense.astype(np.float32).astype(np.float64)


def all_scores(model: HedgerowClassifier, X: Dense) -> Dense:
    """The model's probabilities of all labels; 0 for those that it does not know."""
    top = model.top(csr_array(X.astype(np.float32)), k=model.model_.forest.known, exact=True)
    scores = np.zeros((len(X), len(model.classes_)))
    np.put_along_axis(scores, top.labels, top.probability.astype(np.float64), axis=1)
    return scores


# --- without PECOS: folders written by hand ---


@pytest.mark.parametrize("transform", ["l3-hinge", "sigmoid"])
@pytest.mark.parametrize("bias", [1.0, 0.25, -1.0])
@pytest.mark.parametrize("sizes", [(LABELS,), (5, LABELS), (3, 8, LABELS), (2, 4, 9, LABELS)])
def test_scores_of_an_imported_model_are_those_of_a_dense_walk(
    tmp_path: Path, transform: str, bias: float, sizes: tuple[int, ...]
) -> None:
    layers = random_layers(1, sizes)
    if bias <= 0:
        layers = [(W[:-1], C) for W, C in layers]
    model = import_pecos([write_folder(tmp_path / "pecos", layers, transform, bias)])
    X = inputs()
    assert model.tree_.layer_sizes == (1, *sizes)
    assert np.abs(all_scores(model, X) - dense_walk(layers, X, transform, bias)).max() < CLOSE


@pytest.mark.parametrize("transform", ["l3-hinge", "sigmoid"])
def test_members_of_two_folders_vote_as_their_dense_walks(tmp_path: Path, transform: str) -> None:
    members = [random_layers(1), random_layers(2, (4, LABELS))]
    folders = [write_folder(tmp_path / str(i), layers, transform) for i, layers in enumerate(members)]
    model = import_pecos(folders).set_params(candidates="all")
    X = inputs()
    walks = np.stack([dense_walk(layers, X, transform) for layers in members], axis=2)
    assert np.abs(all_scores(model, X) - walks.mean(axis=2)).max() < CLOSE
    votes = model.predict_votes(csr_array(X.astype(np.float32)))
    assert votes.probs.shape == (len(X) * LABELS, 2)
    rows = np.repeat(np.arange(len(X)), np.diff(votes.indptr))
    assert np.abs(votes.probs - walks[rows, votes.labels]).max() < CLOSE
    uncertain = model.predict_uncertain(csr_array(X.astype(np.float32)), k=3)
    spread = np.take_along_axis(walks.var(axis=2), uncertain.labels, axis=1)
    assert uncertain.variance is not None
    assert np.abs(uncertain.variance - spread).max() < CLOSE


def test_parameters_of_an_imported_model_say_what_it_is(tmp_path: Path) -> None:
    first = write_folder(tmp_path / "a", random_layers(1), "sigmoid", bias=0.5, beam=7)
    second = write_folder(tmp_path / "b", random_layers(2), "sigmoid", bias=0.5, beam=9)
    model = import_pecos([first, second])
    told = model.get_params()
    assert (told["method"], told["members"], told["trees"]) == ("bagging", 2, None)
    assert (told["loss"], told["normalize"], told["beam"], told["bias"]) == ("logistic", False, 9, 0.5)
    assert (told["branching"], told["leaf_size"]) == (3, 4)
    assert (model.n_features_in_, model.classes_.tolist()) == (FEATURES, list(range(LABELS)))
    single = import_pecos([write_folder(tmp_path / "c", random_layers(1, (LABELS,)))])
    told = single.get_params()
    assert (told["method"], told["members"], told["loss"]) == ("single", 1, "squared_hinge")
    weights = np.count_nonzero(random_layers(1, (LABELS,))[0][0][:-1])
    assert single.describe()["weights"] == weights


def test_inputs_are_not_normalized(tmp_path: Path) -> None:
    layers = random_layers(1)
    model = import_pecos([write_folder(tmp_path / "pecos", layers)])
    X = inputs()
    assert np.abs(all_scores(model, 3 * X) - dense_walk(layers, 3 * X, "l3-hinge")).max() < CLOSE


def test_weights_keep_the_precision_of_float32(tmp_path: Path) -> None:
    W = np.array([[np.float32(1) + np.float32(2) ** -23, -1], [0, 0]], dtype=np.float64)
    model = import_pecos([write_folder(tmp_path / "pecos", [(W, np.ones((2, 1)))], "sigmoid")])
    top = model.top(csr_array(np.array([[2.0**10]], dtype=np.float32)), k=2)
    assert top.labels.tolist() == [[0, 1]]
    features, lanes, parts, _ = model.model_.forest.trees[0].node_weights(0, 0)
    assert parts[(features == 0) & (lanes % 2 == 0)].sum(dtype=np.float64) == W[0, 0]


def test_empty_clusters_and_labels_outside_of_clusters_are_left_out(tmp_path: Path) -> None:
    layers = random_layers(1)
    (_, C1), (_, C2) = layers[1:]
    C2[C2[:, 4] > 0, 4] = 0  # a cluster without labels, which are in no other
    C2[7] = 0  # a label without a cluster
    C1[2] = 0  # a cluster that nothing leads to
    C1[C1[:, 1] > 0] = 0  # a cluster of clusters that is empty
    model = import_pecos([write_folder(tmp_path / "pecos", layers)])
    X = inputs()
    walk = dense_walk(layers, X, "l3-hinge")
    known = np.flatnonzero(walk.any(axis=0))
    assert sorted(model.tree_.labels) == known.tolist()
    assert 7 not in known
    assert len(known) < LABELS
    assert len(model.classes_) == LABELS
    assert np.abs(all_scores(model, X) - walk).max() < CLOSE


def test_a_label_that_one_member_does_not_know_has_probability_0_there(tmp_path: Path) -> None:
    whole, pruned = random_layers(1), random_layers(2)
    pruned[-1][1][5] = 0
    folders = [write_folder(tmp_path / str(i), layers) for i, layers in enumerate((whole, pruned))]
    model = import_pecos(folders).set_params(candidates="all")
    X = inputs()
    votes = model.predict_votes(csr_array(X.astype(np.float32)))
    on_five = votes.probs[votes.labels == 5]
    assert np.abs(on_five[:, 0] - dense_walk(whole, X, "l3-hinge")[:, 5]).max() < CLOSE
    assert not on_five[:, 1].any()


def test_a_stored_zero_in_the_clusters_is_an_entry_as_in_pecos(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "pecos", random_layers(1))
    path = folder / "ranker" / "2.model" / "C.npz"
    C = load_npz(path)
    C.data[3] = 0
    save_npz(path, C)
    X = inputs()
    model = import_pecos([folder])
    assert np.abs(all_scores(model, X) - dense_walk(random_layers(1), X, "l3-hinge")).max() < CLOSE


def test_matrices_by_rows_and_compressed_are_read_too(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "pecos", random_layers(1))
    for path in folder.glob("ranker/*.model/*.npz"):
        save_npz(path, csr_matrix(load_npz(path)), compressed=True)
    X = inputs()
    model = import_pecos([folder])
    assert np.abs(all_scores(model, X) - dense_walk(random_layers(1), X, "l3-hinge")).max() < CLOSE


def test_imported_models_survive_files_and_pickles(tmp_path: Path) -> None:
    folders = [write_folder(tmp_path / str(i), random_layers(i)) for i in range(3)]
    model = import_pecos(folders)
    path = tmp_path / "m.hedgerow"
    model.save(path)
    X = csr_array(inputs().astype(np.float32))
    expected = model.predict_uncertain(X, k=4)
    for copy in (hedgerow.load(path), hedgerow.load(path, verify=False), pickle.loads(pickle.dumps(model))):
        found = copy.predict_uncertain(X, k=4)
        assert np.array_equal(found.labels, expected.labels)
        assert np.array_equal(found.probability, expected.probability)
        assert np.array_equal(copy.top(X, k=4).labels, expected.labels)
        assert copy.get_params() == model.get_params()
        assert copy.describe() == model.describe()
    again = tmp_path / "again.hedgerow"
    import_pecos(folders).save(again)
    assert again.read_bytes() == path.read_bytes()


def test_progress_grows_to_the_end(tmp_path: Path) -> None:
    folders = [write_folder(tmp_path / str(i), random_layers(i)) for i in range(2)]
    told: list[float] = []
    import_pecos(folders, progress=lambda share, what: told.append(share))
    assert told == sorted(told)
    assert 0 < told[0] < told[-1] <= 1


# --- what cannot be imported ---

Harm = Callable[[Path], object]  # what is done to a folder
MIDDLE, LAST = "ranker/1.model", "ranker/2.model"


def state(where: str, **changes: Any) -> Harm:
    """Change what a param.json says."""

    def harm(folder: Path) -> None:
        path = folder / where / "param.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return harm


def post_process(name: Any) -> Harm:
    return state(MIDDLE, pred_kwargs={"only_topk": 20, "post_processor": name})


def alter(where: str, change: Callable[[Dense], Dense]) -> Harm:
    """Change a matrix."""

    def harm(folder: Path) -> None:
        save_npz(folder / where, csc_matrix(change(load_npz(folder / where).toarray())))

    return harm


def set_entry(where: str, place: Any, value: float) -> Harm:
    def change(matrix: Dense) -> Dense:
        matrix[place] = value
        return matrix

    return alter(where, change)


def write(where: str, content: bytes) -> Harm:
    return lambda folder: (folder / where).write_bytes(content)


def cut_off(where: str) -> Harm:
    return lambda folder: (folder / where).write_bytes((folder / where).read_bytes()[:200])


def remove(where: str) -> Harm:
    return lambda folder: (folder / where).rename(folder / "removed")


def both(first: Harm, second: Harm) -> Harm:
    return lambda folder: (first(folder), second(folder))


# What is done, the file that the error names, and what it says.
FAULTS: dict[str, tuple[Harm, str, str]] = {
    "no param.json": (remove("param.json"), "param.json", "is missing"),
    "no ranker": (remove("ranker"), "ranker/param.json", "is missing"),
    "no layer": (remove(MIDDLE), f"{MIDDLE}/param.json", "is missing"),
    "no W": (remove(f"{MIDDLE}/W.npz"), f"{MIDDLE}/W.npz", "is missing"),
    "no C": (remove(f"{MIDDLE}/C.npz"), f"{MIDDLE}/C.npz", "is missing"),
    "half a JSON": (write("ranker/param.json", b"{"), "ranker/param.json", "cannot be read as JSON"),
    "no UTF-8": (write("param.json", b"\xff\xfe{}"), "param.json", "cannot be read as JSON"),
    "a deep JSON": (write("param.json", b"[" * 200_000), "param.json", "cannot be read as JSON"),
    "a list": (write("param.json", b"[1]"), "param.json", "was not written by PECOS"),
    "an empty JSON": (write("param.json", b"{}"), "param.json", "was not written by PECOS"),
    "another model": (state("", model="XTransformer"), "param.json", "only XLinearModel can be imported"),
    "a compiled model": (state("ranker", is_mmap=True), "ranker/param.json", "memory mapping"),
    "no depth": (state("ranker", depth=0), "ranker/param.json", "depth is 0"),
    "text as depth": (state("ranker", depth="3"), "ranker/param.json", "depth is '3'"),
    "a great depth": (state("ranker", depth=10**9), "ranker/param.json", "1 to 64 layers"),
    "no bias": (state(MIDDLE, bias=None), f"{MIDDLE}/param.json", "bias is None"),
    "an endless bias": (state(MIDDLE, bias=float("inf")), f"{MIDDLE}/param.json", "a finite number"),
    "no pred_kwargs": (state(MIDDLE, pred_kwargs=None), f"{MIDDLE}/param.json", "has no pred_kwargs"),
    "noop": (post_process("noop"), f"{MIDDLE}/param.json", "the post-processor is 'noop'"),
    "log-sigmoid": (post_process("log-sigmoid"), f"{MIDDLE}/param.json", "processor is 'log-sigmoid'"),
    "log-l3-hinge": (post_process("log-l3-hinge"), f"{MIDDLE}/param.json", "processor is 'log-l3-hinge'"),
    "l2-hinge": (post_process("l2-hinge"), f"{MIDDLE}/param.json", "the post-processor is 'l2-hinge'"),
    "no post-processor": (post_process(None), f"{MIDDLE}/param.json", "the post-processor is None"),
    "a list of them": (post_process(["sigmoid"]), f"{MIDDLE}/param.json", "processor is ['sigmoid']"),
    "two post-processors": (post_process("sigmoid"), MIDDLE, "the post-processor sigmoid, but"),
    "other labels": (state(MIDDLE, nr_labels=9), f"{MIDDLE}/param.json", "states 9 labels"),
    "other features": (state("ranker", nr_features=9), "ranker/param.json", "states 9 features"),
    "a narrow W": (alter(f"{MIDDLE}/W.npz", lambda W: W[:, 1:]), f"{MIDDLE}/C.npz", "there are 7 columns"),
    "a short W": (alter(f"{MIDDLE}/W.npz", lambda W: W[1:]), f"{MIDDLE}/param.json", "the matrices have 11"),
    "a layer of other features": (
        both(alter(f"{MIDDLE}/W.npz", lambda W: W[1:]), state(MIDDLE, nr_features=11)),
        MIDDLE,
        "has 11 features",
    ),
    "an empty W": (alter(f"{MIDDLE}/W.npz", lambda W: W[:1]), f"{MIDDLE}/W.npz", "too few features"),
    "a narrow C": (
        both(alter(f"{LAST}/C.npz", lambda C: C[:, 1:]), state(LAST, nr_codes=7)),
        f"{LAST}/C.npz",
        "has 7 columns, but there are 8 nodes",
    ),
    "a label in all clusters": (set_entry(f"{LAST}/C.npz", 4, 1), f"{LAST}/C.npz", "node 4 is in 8 clusters"),
    "no labels": (alter(f"{LAST}/C.npz", np.zeros_like), f"{LAST}/C.npz", "no label is in any cluster"),
    "a weight nan": (set_entry(f"{MIDDLE}/W.npz", (2, 3), np.nan), f"{MIDDLE}/W.npz", "not a finite"),
    "a great weight": (set_entry(f"{MIDDLE}/W.npz", (2, 3), 3.4e38), f"{MIDDLE}/W.npz", "beyond 3.39e+38"),
    "a great bias": (
        both(state(MIDDLE, bias=1e30), set_entry(f"{MIDDLE}/W.npz", (FEATURES, 0), 1e30)),
        f"{MIDDLE}/W.npz",
        "not a finite 32-bit float",
    ),
    "half an archive": (cut_off(f"{MIDDLE}/W.npz"), f"{MIDDLE}/W.npz", "cannot be read as a sparse matrix"),
    "no archive": (write(f"{MIDDLE}/C.npz", b"C"), f"{MIDDLE}/C.npz", "cannot be read as a sparse matrix"),
    "a folder": (
        both(remove(f"{MIDDLE}/C.npz"), lambda folder: (folder / f"{MIDDLE}/C.npz").mkdir()),
        f"{MIDDLE}/C.npz",
        "cannot be read as a sparse matrix",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_import_of_a_broken_folder_names_the_file(tmp_path: Path, fault: str) -> None:
    folder = write_folder(tmp_path / "pecos", random_layers(1))
    harm, where, message = FAULTS[fault]
    harm(folder)
    with pytest.raises(DataError) as caught:
        import_pecos([folder])
    assert Path(caught.value.path) == folder / where
    assert message in str(caught.value)


def test_import_never_unpickles(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    folder = write_folder(tmp_path / "pecos", random_layers(1))
    W = load_npz(folder / MIDDLE / "W.npz")
    arrays = {"indices": W.indices, "indptr": W.indptr, "format": b"csc", "shape": W.shape}
    np.savez(folder / MIDDLE / "W.npz", data=np.array([Trap()]), **arrays)
    with pytest.raises(DataError, match="allow_pickle=False"):
        import_pecos([folder])
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("compressed", [False, True])
def test_import_of_a_damaged_archive_gives_a_model_or_a_data_error(tmp_path: Path, compressed: bool) -> None:
    folder = write_folder(tmp_path / "pecos", random_layers(1))
    path = folder / MIDDLE / "W.npz"
    save_npz(path, load_npz(path), compressed=compressed)
    sound = path.read_bytes()
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(150):
        damaged = bytearray(sound)
        damaged[random.integers(len(damaged))] ^= 1 << int(random.integers(8))
        path.write_bytes(damaged)
        try:
            import_pecos([folder])
        except DataError:
            refused += 1
    assert refused > 100


def test_import_of_a_ranker_without_its_matcher_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "pecos", random_layers(1)[1:])
    with pytest.raises(DataError, match="mode='full-model'"):
        import_pecos([folder])


def test_import_of_the_ranker_inside_a_model_points_to_the_whole(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "pecos", random_layers(1))
    with pytest.raises(DataError, match="give the folder of the whole model"):
        import_pecos([folder / "ranker"])


@pytest.mark.parametrize(
    ("other", "transform", "message"),
    [
        (random_layers(2, features=FEATURES + 1), "l3-hinge", "features: 13, but"),
        (random_layers(2, (3, LABELS + 1)), "l3-hinge", "labels: 31, but"),
        (random_layers(2), "sigmoid", "post-processor: sigmoid, but"),
    ],
)
def test_folders_that_do_not_fit_together_are_refused(
    tmp_path: Path, other: Layers, transform: str, message: str
) -> None:
    folders = [
        write_folder(tmp_path / "a", random_layers(1)),
        write_folder(tmp_path / "b", other, transform),
    ]
    with pytest.raises(DataError, match=message) as caught:
        import_pecos(folders)
    assert Path(caught.value.path) == folders[1]


def test_import_of_nothing_one_path_and_the_same_folder_twice_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "pecos", random_layers(1))
    with pytest.raises(ValueError, match="there are 0 folders"):
        import_pecos([])
    with pytest.raises(TypeError, match="give a list of folders"):
        import_pecos(str(folder))
    with pytest.raises(DataError, match="same folder"):
        import_pecos([folder, tmp_path / "." / "pecos"])
    with pytest.raises(DataError, match="does not exist"):
        import_pecos([tmp_path / "none"])
    with pytest.raises(DataError, match="is not a folder"):
        import_pecos([folder / "param.json"])


# --- the command ---


def test_command_writes_a_model_that_predicts_and_can_be_inspected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    members = [random_layers(i) for i in range(2)]
    folders = [write_folder(tmp_path / str(i), layers) for i, layers in enumerate(members)]
    path = tmp_path / "m.hedgerow"
    assert main(["import-pecos", *map(str, folders), str(path)]) == 0
    said = capsys.readouterr()
    assert "2 members, 30 labels, 12 features" in said.out
    assert "rows scaled to length 1" in said.out
    assert said.err == ""
    X = inputs()
    walk = np.mean([dense_walk(layers, X, "l3-hinge") for layers in members], axis=0)
    assert np.abs(all_scores(hedgerow.load(path), X) - walk).max() < CLOSE
    assert main(["inspect", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["members"], told["method"], told["parameters"]["normalize"]) == (2, "bagging", False)
    assert main(["import-pecos", str(folders[0]), str(path), "--overwrite", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["members"] == 1


def test_command_tells_of_failures_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_folder(tmp_path / "pecos", random_layers(1))
    path = tmp_path / "m.hedgerow"

    def failure(*arguments: Path) -> tuple[int, str]:
        code = main(["import-pecos", *map(str, arguments)])
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("hedgerow: error: ")
        assert said.err.count("\n") == 1
        return code, said.err

    code, message = failure(tmp_path / "none", path)
    assert (code, "none: does not exist" in message) == (ExitCode.MODEL, True)
    post_process("noop")(folder)
    code, message = failure(folder, path)
    assert (code, "1.model/param.json: the post-processor is 'noop'" in message) == (ExitCode.MODEL, True)
    assert failure(folder)[0] == ExitCode.USAGE
    path.write_bytes(b"precious")
    code, message = failure(folder, path)
    assert (code, "--overwrite" in message) == (ExitCode.WRITE, True)
    assert path.read_bytes() == b"precious"


# --- with PECOS: its own models and its own scores ---

TRAIN = """
import sys
from pathlib import Path
import numpy as np
import scipy.sparse as sp
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear import XLinearModel

home, n, d, labels = Path(sys.argv[1]), 600, 80, 300
random = np.random.default_rng(0)
X = sp.random(n + 60, d, 0.15, format="csr", random_state=1, dtype=np.float32)
scores = X @ random.normal(size=(d, labels))
truth = np.zeros(scores.shape, dtype=np.float32)
np.put_along_axis(truth, np.argsort(-scores, axis=1)[:, :4], 1, axis=1)
X, test = sp.csr_matrix(X[:n]), sp.csr_matrix(X[n:])
Y = sp.csc_matrix(truth[:n])
sp.save_npz(home / "X.npz", test)
known = LabelEmbeddingFactory.create(Y, X, method="pifa", threads=1)
trees = [
    Indexer.gen(known, indexer_type="hierarchicalkmeans", nr_splits=4, max_leaf_size=6, seed=seed, threads=1)
    for seed in (0, 1)
]
logistic = {"solver_type": "L2R_LR_DUAL", "post_processor": "sigmoid", "Cp": 10.0, "Cn": 10.0}
for name, settings in {
    "hinge": {"C": trees[0]},
    "other": {"C": trees[1]},
    "sigmoid": {"C": trees[0], **logistic},
    "bias": {"C": trees[0], "bias": 0.3},
    "no-bias": {"C": trees[0], "bias": -1.0},
    "flat": {},
    "pruned": {"C": trees[0]},
}.items():
    model = XLinearModel.train(X, Y, threads=1, threshold=1e-3, **settings)
    if name == "pruned":
        model.set_output_constraint(range(0, labels, 7))
    model.save(str(home / name))
    for beam, top in ((1000, labels), (10, 20)):
        found = model.predict(test, beam_size=beam, only_topk=top, threads=1)
        sp.save_npz(home / f"{name}.{beam}.npz", found)
"""


@pytest.fixture(scope="module")
def pecos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models and predictions of PECOS."""
    beside = Path(__file__).parent.parent / ".venv-peers/bin/python"
    python = os.environ.get("HEDGEROW_PECOS_PYTHON", str(beside))
    if not Path(python).exists():
        pytest.skip("no Python with PECOS: name one in HEDGEROW_PECOS_PYTHON")
    home = tmp_path_factory.mktemp("pecos")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    ran = subprocess.run([python, "-c", TRAIN, home], env=environment, capture_output=True, text=True)
    if "No module named 'pecos'" in ran.stderr:
        pytest.skip(f"{python} has no PECOS")
    assert ran.returncode == 0, ran.stderr
    return home


def differences(found: Any, expected: csr_matrix) -> list[float]:
    """Compare label by label. At the end of a list, labels of the same score may change places."""
    gaps = []
    for labels, scores, row in zip(found.labels, found.probability, expected, strict=True):
        ours = dict(zip(labels.tolist(), scores.tolist(), strict=True))
        theirs = dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))
        gaps += [abs(ours[label] - theirs[label]) for label in ours.keys() & theirs.keys()]
        gaps += [theirs[label] - min(ours.values()) for label in theirs.keys() - ours.keys()]
        if len(ours) == len(theirs):
            gaps += [ours[label] - min(theirs.values()) for label in ours.keys() - theirs.keys()]
    return gaps


NAMES = ["hinge", "other", "sigmoid", "bias", "no-bias", "flat"]


@pytest.mark.parametrize("name", [*NAMES, "pruned"])
def test_scores_at_a_beam_as_wide_as_the_tree_are_those_of_pecos(pecos: Path, name: str) -> None:
    model = import_pecos([pecos / name]).set_params(beam=1000)
    expected = csr_matrix(load_npz(pecos / f"{name}.1000.npz"))
    known = 43 if name == "pruned" else 300
    assert set(np.diff(expected.indptr)) == {known}
    top = model.top(load_npz(pecos / "X.npz"), k=known)
    gaps = differences(top, expected)
    assert len(gaps) == expected.nnz
    assert max(gaps) < CLOSE


@pytest.mark.parametrize("name", NAMES)
def test_scores_at_a_narrow_beam_are_those_of_pecos(pecos: Path, name: str) -> None:
    model = import_pecos([pecos / name]).set_params(beam=10)
    expected = csr_matrix(load_npz(pecos / f"{name}.10.npz"))
    assert set(np.diff(expected.indptr)) == {20}
    assert max(differences(model.top(load_npz(pecos / "X.npz"), k=20), expected)) < CLOSE


def test_votes_of_two_pecos_models_are_their_scores(pecos: Path) -> None:
    names = ["hinge", "other"]
    model = import_pecos([pecos / name for name in names]).set_params(candidates="all")
    votes = model.predict_votes(load_npz(pecos / "X.npz"))
    rows = np.repeat(np.arange(len(votes.indptr) - 1), np.diff(votes.indptr))
    for member, name in enumerate(names):
        expected = load_npz(pecos / f"{name}.1000.npz").toarray()
        assert np.abs(votes.probs[:, member] - expected[rows, votes.labels]).max() < CLOSE
