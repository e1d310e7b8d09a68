"""The classifiers, with scikit-learn's conventions."""
