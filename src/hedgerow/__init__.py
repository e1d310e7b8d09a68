"""Extreme multi-label classification that knows when it does not know."""
