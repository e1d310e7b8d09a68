"""The experiments of the paper, on any data."""

from .deep_models import DeepSettings
from .experiment import Experiment, ExperimentSettings, run
from .machine import machine
from .sources import Source
from .tables import write_tables

__all__ = ["DeepSettings", "Experiment", "ExperimentSettings", "Source", "machine", "run", "write_tables"]
