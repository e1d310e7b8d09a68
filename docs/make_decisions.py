"""Repeat the example of docs/how-to/decide.md and draw its picture.

python docs/make_decisions.py EURLEX FOLDER

The test rows of EURLEX (train.txt and test.txt, packed or not) are shuffled: 2,500 become FOLDER/held-out,
the others FOLDER/new. Needs matplotlib.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from hedgerow import HedgerowClassifier, load
from hedgerow.data import read_part, write_xmc_text

PICTURE = Path(__file__).parent / "how-to/decisions.svg"
HELD_OUT = 2500
RISKS = np.arange(0.02, 0.4001, 0.01).round(3)


def main(eurlex: Path, folder: Path) -> None:
    """Cut, fit, calibrate, decide and evaluate; then draw what comes of many risks."""
    test = read_part(eurlex, "test")
    order = np.random.default_rng(0).permutation(test.X.shape[0])
    for part, rows in (("held-out", order[:HELD_OUT]), ("new", order[HELD_OUT:])):
        (folder / part).mkdir(parents=True, exist_ok=True)
        write_xmc_text(folder / part / "test.txt", test.X[rows], test.Y[rows])
    model = folder / "eurlex.hedgerow"
    hedgerow("fit", eurlex, model, "--method", "bagging", "--seed", 0, "--overwrite")
    hedgerow("calibrate", model, folder / "held-out")
    hedgerow("decide", model, folder / "new", "--risk", 0.1)
    hedgerow("evaluate", model, folder / "new")
    draw(load(model), test.X[rows], test.Y[rows])


def hedgerow(*arguments: object) -> None:
    """Run a command for a terminal of 110 columns."""
    print("$ hedgerow", *arguments, flush=True)
    words = [str(argument) for argument in arguments]
    subprocess.run(
        [sys.executable, "-m", "hedgerow", *words], env={**os.environ, "COLUMNS": "110"}, check=True
    )


def outcome(model: HedgerowClassifier, X: sp.csr_array, Y: sp.csr_array, risk: float) -> tuple[float, ...]:
    """Means over inputs: true labels rejected, accepted labels wrong; labels accepted, and to review."""
    inputs = []
    for row, found in enumerate(model.decide(X, risk=risk, k=0)):
        true = set(Y.indices[Y.indptr[row] : Y.indptr[row + 1]].tolist())
        accepted, kept = set(found.accept), {*found.accept, *found.review}
        missed = 1 - len(true & kept) / len(true) if true else np.nan
        wrong = len(accepted - true) / len(accepted) if accepted else 0.0
        inputs.append((missed, wrong, len(found.accept), len(found.review)))
    return tuple(np.nanmean(inputs, axis=0).tolist())


def draw(model: HedgerowClassifier, X: sp.csr_array, Y: sp.csr_array) -> None:
    """Draw guaranteed beside achieved, and what is left for people, by risk."""
    from matplotlib import pyplot

    possible = RISKS[model.policy_.lowest_risk() <= RISKS]
    missed, wrong, accepted, review = zip(*(outcome(model, X, Y, risk) for risk in possible), strict=True)
    pyplot.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "hedgerow"}
    figure, (shares, work) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    percent = 100 * possible
    shares.plot(percent, percent, "--", color="grey", label="guaranteed: at most this")
    shares.plot(percent, 100 * np.array(missed), label="true labels rejected")
    shares.plot(percent, 100 * np.array(wrong), label="accepted labels wrong")
    shares.set(title="Guaranteed and achieved", xlabel="risk asked for, %", ylabel="mean share, %")
    work.semilogy(percent, review, color="tab:purple", label="to review")
    work.semilogy(percent, accepted, color="tab:green", label="accepted")
    work.set(title="What is left for people", xlabel="risk asked for, %", ylabel="labels per input")
    for axes in (shares, work):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
