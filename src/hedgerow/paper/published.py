"""What the paper reports, and where its data sets come from. Figures are percentages, times are minutes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PaperData:
    """A data set of the paper: its title there, and how many inputs and labels it has."""

    title: str
    train: int
    test: int
    labels: int

    @property
    def origin(self) -> str:
        """Where to get it and in which files, in a sentence."""
        return (
            f"{self.title} is one of the data sets of the extreme classification repository (Bhatia et al.)"
            " and of the AttentionXML and PECOS benchmarks. Download it into that folder, with"
            " train.txt and test.txt of the repository, or with X.trn.npz, Y.trn.npz, X.tst.npz and"
            " Y.tst.npz of PECOS, or with train_texts.txt, train_labels.txt, test_texts.txt and"
            " test_labels.txt"
        )


DATA_SETS = {
    "eurlex-4k": PaperData("Eurlex-4K", 15_449, 3_865, 3_956),
    "wiki10-31k": PaperData("Wiki10-31K", 14_146, 6_616, 30_938),
    "amazon-670k": PaperData("Amazon-670K", 490_449, 153_025, 670_091),
    "amazoncat-13k": PaperData("AmazonCat-13K", 1_186_239, 306_782, 13_330),
    "wiki-500k": PaperData("Wiki-500K", 1_779_881, 769_421, 501_070),
    "amazon-3m": PaperData("Amazon-3M", 1_717_899, 742_507, 2_812_281),
}


def known_data(path: Path) -> PaperData | None:
    """The data set of the paper that a folder is named after, or None."""
    return DATA_SETS.get(path.name.lower())


# Table 2: P@1, P@3, P@5, R@1, R@3, R@5.
PERFORMANCE: dict[str, dict[str, tuple[float, ...]]] = {
    "eurlex-4k": {
        "single": (81.76, 69.02, 57.61, 16.52, 41.00, 55.99),
        "mc-dropout": (81.91, 68.95, 57.67, 16.55, 40.95, 56.07),
        "boosting": (82.74, 69.55, 58.16, 16.74, 41.33, 56.56),
        "bagging": (81.79, 69.05, 57.63, 16.55, 41.03, 56.02),
        "boosted-bagging": (82.69, 69.68, 58.14, 16.73, 41.43, 56.56),
    },
    "wiki10-31k": {
        "single": (84.05, 73.06, 64.09, 4.96, 12.73, 18.33),
        "mc-dropout": (84.04, 73.06, 64.07, 4.96, 12.74, 18.33),
        "boosting": (84.33, 73.67, 64.58, 4.98, 12.85, 18.50),
        "bagging": (84.36, 73.02, 63.98, 4.97, 12.72, 18.30),
        "boosted-bagging": (84.55, 73.58, 64.53, 5.00, 12.82, 18.47),
    },
    "amazon-670k": {
        "single": (44.25, 39.34, 35.70, 9.21, 22.82, 33.46),
        "mc-dropout": (44.29, 39.37, 35.70, 9.21, 22.84, 33.47),
        "boosting": (44.54, 39.51, 35.80, 9.31, 22.96, 33.58),
        "bagging": (44.34, 39.39, 35.78, 9.23, 22.85, 33.54),
        "boosted-bagging": (44.64, 39.65, 35.96, 9.32, 23.03, 33.72),
    },
    "amazoncat-13k": {
        "single": (92.60, 78.43, 63.79, 26.17, 59.37, 74.66),
        "mc-dropout": (92.61, 78.44, 63.79, 26.17, 59.38, 74.67),
        "boosting": (93.01, 78.81, 64.08, 26.30, 59.68, 75.02),
        "bagging": (92.77, 78.51, 63.87, 26.24, 59.43, 74.75),
        "boosted-bagging": (93.09, 78.82, 64.08, 26.34, 59.69, 75.02),
    },
    "wiki-500k": {
        "single": (67.05, 48.02, 37.52, 21.84, 39.85, 48.08),
        "mc-dropout": (67.01, 47.97, 37.47, 21.81, 39.81, 48.02),
        "boosting": (67.85, 48.06, 37.33, 22.17, 39.98, 47.96),
        "bagging": (66.92, 47.89, 37.43, 21.77, 39.74, 47.98),
        "boosted-bagging": (67.69, 48.01, 37.33, 22.08, 39.92, 47.97),
    },
    "amazon-3m": {
        "single": (46.42, 43.60, 41.52, 2.89, 7.17, 10.59),
        "mc-dropout": (46.42, 43.58, 41.48, 2.88, 7.16, 10.57),
        "boosting": (47.05, 44.29, 42.16, 3.03, 7.48, 11.01),
        "bagging": (46.64, 43.76, 41.66, 2.90, 7.18, 10.61),
        "boosted-bagging": (47.11, 44.29, 42.14, 3.02, 7.43, 10.93),
    },
}

# Tables 3 and 4 have one column each for Energy and MC dropout, and PV, TU, KU for every ensemble.
COLUMNS = (
    ("single", "energy"),
    ("mc-dropout", "variance"),
    ("boosting", "variance"),
    ("boosting", "total"),
    ("boosting", "knowledge"),
    ("bagging", "variance"),
    ("bagging", "total"),
    ("bagging", "knowledge"),
    ("boosted-bagging", "variance"),
    ("boosted-bagging", "total"),
    ("boosted-bagging", "knowledge"),
)

MISCLASSIFICATION: dict[str, tuple[float, ...]] = {
    "eurlex-4k": (83.54, 93.54, 93.37, 93.51, 94.34, 94.19, 93.47, 93.73, 94.39, 93.53, 94.18),
    "wiki10-31k": (87.28, 86.48, 86.44, 87.36, 87.28, 86.30, 87.14, 87.09, 89.46, 87.18, 87.14),
    "amazon-670k": (80.73, 95.94, 95.02, 95.65, 95.55, 96.12, 95.67, 95.67, 95.82, 95.64, 95.49),
    "amazoncat-13k": (85.15, 95.50, 95.87, 95.58, 95.47, 95.68, 95.52, 95.53, 95.35, 95.73, 95.70),
    "wiki-500k": (80.10, 93.59, 92.15, 93.42, 94.07, 93.95, 93.52, 93.76, 93.33, 93.43, 93.95),
    "amazon-3m": (77.04, 77.00, 75.46, 77.42, 75.18, 76.03, 76.95, 76.36, 75.87, 77.26, 76.03),
}

# By training set and data set of the out-of-distribution inputs.
_OOD_DETECTION: dict[str, dict[str, tuple[float, ...]]] = {
    "wiki10-31k": {
        "eurlex-4k": (96.89, 97.11, 97.17, 96.71, 95.76, 97.21, 96.97, 96.76, 97.08, 96.81, 96.58),
        "amazon-670k": (95.55, 96.66, 96.53, 95.52, 95.13, 96.58, 95.68, 95.39, 96.56, 95.70, 95.35),
        "amazoncat-13k": (94.60, 95.91, 95.76, 94.63, 93.99, 95.82, 94.75, 94.45, 95.82, 94.81, 94.37),
        "wiki-500k": (91.01, 90.43, 90.70, 90.71, 89.10, 90.91, 91.12, 91.19, 90.92, 91.09, 91.13),
        "amazon-3m": (94.89, 96.28, 96.17, 94.87, 94.31, 96.14, 95.06, 94.63, 96.15, 95.10, 94.48),
    },
    "amazon-670k": {
        "eurlex-4k": (98.68, 98.67, 98.79, 98.85, 98.65, 98.75, 98.62, 98.71, 98.83, 98.76, 98.69),
        "wiki10-31k": (71.01, 72.85, 72.83, 71.27, 70.90, 73.22, 71.28, 71.21, 73.31, 71.38, 71.26),
        "amazoncat-13k": (48.38, 50.62, 51.11, 48.41, 49.50, 50.63, 48.39, 48.34, 50.63, 48.17, 48.84),
        "wiki-500k": (88.29, 88.78, 88.55, 88.64, 88.04, 89.27, 88.36, 88.50, 89.58, 88.88, 88.43),
        "amazon-3m": (64.27, 66.48, 67.15, 65.08, 64.58, 66.67, 64.31, 64.43, 66.59, 64.49, 64.55),
    },
}
OOD_DETECTION = {
    (data, other): figures for data, others in _OOD_DETECTION.items() for other, figures in others.items()
}

# Table 5, boosted bagging: minutes, PV, TU, KU over all labels and by beam search.
EFFICIENCY: dict[str, dict[str, tuple[float, ...]]] = {
    "eurlex-4k": {"exact": (49.12, 97.35, 97.17, 97.23), "beam": (1.62, 94.39, 93.53, 94.18)},
    "wiki10-31k": {"exact": (671.18, 91.06, 90.77, 91.04), "beam": (6.08, 89.46, 87.18, 87.14)},
}

# Table 6, XR-Transformer: P@1, P@3, P@5, R@1, R@3, R@5. The last figure is as printed, and must be a
# misprint: at nearly the same precision the single model has 37.49.
DEEP_PERFORMANCE: dict[str, dict[str, tuple[float, ...]]] = {
    "eurlex-4k": {
        "single": (87.17, 74.51, 61.51, 17.71, 44.45, 59.86),
        "boosted-bagging": (88.10, 75.71, 62.21, 17.92, 45.10, 60.53),
    },
    "wiki10-31k": {
        "single": (87.89, 78.69, 69.08, 5.24, 13.84, 19.89),
        "boosted-bagging": (88.54, 79.68, 70.31, 5.29, 14.01, 20.24),
    },
    "amazon-670k": {
        "single": (49.00, 43.68, 39.81, 10.30, 25.49, 37.49),
        "boosted-bagging": (49.95, 44.58, 40.67, 10.49, 25.99, 67.26),
    },
}

# Table 7.
DEEP_COLUMNS = (
    ("single", "energy"),
    ("boosted-bagging", "variance"),
    ("boosted-bagging", "total"),
    ("boosted-bagging", "knowledge"),
)
DEEP_MISCLASSIFICATION: dict[str, tuple[float, ...]] = {
    "eurlex-4k": (90.10, 91.74, 92.75, 92.03),
    "wiki10-31k": (88.19, 88.29, 89.28, 88.69),
    "amazon-670k": (91.30, 92.46, 95.04, 93.10),
}

# Table 8, models without uncertainty: P@1, P@3, P@5 on the three data sets of table 6, in their order.
DEEP_RIVALS: dict[str, tuple[float, ...]] = {
    "AnnexML": (79.66, 64.94, 53.52, 86.46, 74.28, 64.20, 42.09, 36.61, 32.75),
    "DiSMEC": (83.21, 70.39, 58.73, 84.13, 74.72, 65.94, 44.78, 39.72, 36.17),
    "PfastreXML": (73.14, 60.16, 50.54, 83.57, 68.61, 59.10, 36.84, 34.23, 32.09),
    "Parabel": (82.12, 68.91, 57.89, 84.19, 72.46, 63.37, 44.91, 39.77, 35.98),
    "eXtremeText": (79.17, 66.80, 56.09, 83.66, 73.28, 64.51, 42.54, 37.93, 34.63),
    "Bonsai": (82.30, 69.55, 58.35, 84.52, 73.76, 64.69, 45.58, 40.39, 36.60),
    "XML-CNN": (75.32, 60.14, 49.21, 81.41, 66.23, 56.11, 33.41, 30.00, 27.42),
    "AttentionXML": (85.49, 73.08, 61.10, 87.05, 77.78, 68.78, 45.66, 40.67, 36.94),
    "X-Transformer": (85.82, 73.23, 61.18, 87.79, 78.43, 69.74, 46.45, 40.82, 36.71),
    "LightXML": (85.60, 74.10, 62.00, 87.84, 77.26, 67.99, 47.30, 42.20, 38.50),
}
