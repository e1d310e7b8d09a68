"""The experiments of the paper, on any data."""

from .deep_models import DeepSettings
from .experiment import Experiment, Settings, Source, run
from .machine import machine
from .tables import write_tables

__all__ = ["DeepSettings", "Experiment", "Settings", "Source", "machine", "run", "write_tables"]
