"""From the votes of members to calibrated probabilities."""
