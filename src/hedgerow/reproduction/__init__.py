"""The experiments of the paper, on any data."""

from .experiment import Experiment, Settings, Source, run
from .tables import write_tables

__all__ = ["Experiment", "Settings", "Source", "run", "write_tables"]
