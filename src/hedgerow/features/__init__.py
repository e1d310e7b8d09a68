"""From texts to features."""
