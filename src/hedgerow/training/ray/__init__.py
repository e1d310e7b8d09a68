"""Fitting on a Ray cluster (``pip install 'hedgerow[ray]'``); Ray is imported when it is asked for."""

from hedgerow.training.ray.crew import ClusterError, Crew, check_address, open_crew

__all__ = ["ClusterError", "Crew", "check_address", "open_crew"]
