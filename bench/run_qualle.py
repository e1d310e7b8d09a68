"""Predict the recall of answers by Qualle, in its own environment: `python bench/run_qualle.py IN OUT`.

IN is a JSON file with the parts "train" and "test", each with texts, the labels that were given, their
scores and, for training, the true labels. OUT gets the predicted recall of each test input and the processor
seconds, for each setting.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
from qualle.features.confidence import ConfidenceFeatures
from qualle.features.label_calibration.simple_label_calibration import (
    SimpleLabelCalibrationFeatures,
    SimpleLabelCalibrator,
)
from qualle.features.text import TextFeatures
from qualle.models import PredictData, TrainData
from qualle.train import Trainer
from sklearn.ensemble import GradientBoostingRegressor

# How its command line trains unless it is told otherwise, and with as many trees as scikit-learn's default.
SETTINGS = {
    "Qualle, its defaults": {"n_estimators": 10, "max_depth": 8},
    "Qualle, 100 small trees": {"n_estimators": 100, "max_depth": 3},
}
CALIBRATOR = {"min_samples_leaf": 30, "max_depth": 5, "n_estimators": 10}


def main() -> None:
    source, target = map(Path, sys.argv[1:3])
    parts = json.loads(source.read_text())
    train, test = (
        PredictData(docs=part["texts"], predicted_labels=part["labels"], scores=part["scores"])
        for part in (parts["train"], parts["test"])
    )
    found = {}
    for name, trees in SETTINGS.items():
        start = time.process_time()
        trainer = Trainer(
            train_data=TrainData(predict_data=train, true_labels=parts["train"]["true"]),
            label_calibrator=SimpleLabelCalibrator(GradientBoostingRegressor(**CALIBRATOR, random_state=0)),
            quality_regressor=GradientBoostingRegressor(**trees, random_state=0),
            features=[ConfidenceFeatures(), TextFeatures(), SimpleLabelCalibrationFeatures()],
        )
        predicted = trainer.train().predict(test)
        found[name] = {
            "recall": np.asarray(predicted, dtype=float).tolist(),
            "cpu_seconds": time.process_time() - start,
        }
    target.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
