"""What xCOLUMNs chooses: run in its own environment as `python tests/xcolumns_choice.py IN.npz OUT.npy`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np


def main() -> None:
    from scipy.sparse import csr_matrix
    from xcolumns.block_coordinate import predict_using_bc_with_0approx
    from xcolumns.metrics import (
        binary_f1_score_on_conf_matrix,
        binary_precision_on_conf_matrix,
        binary_recall_on_conf_matrix,
    )

    measures = {
        "macro-f1": binary_f1_score_on_conf_matrix,
        "macro-precision": binary_precision_on_conf_matrix,
        "macro-recall": binary_recall_on_conf_matrix,
    }
    source, target = map(Path, sys.argv[1:3])
    with np.load(source) as given:
        indptr, labels, probability = (given[name] for name in ("indptr", "labels", "probability"))
        n_labels, k, measure = int(given["n_labels"]), int(given["k"]), str(given["measure"])
    proba = csr_matrix((probability, labels, indptr), shape=(len(indptr) - 1, n_labels))
    found = predict_using_bc_with_0approx(
        proba, measures[measure], k, init_y_pred="top", shuffle_order=False, skip_tn=True
    )
    np.save(target, csr_matrix(found).toarray() > 0)


if __name__ == "__main__":
    main()
