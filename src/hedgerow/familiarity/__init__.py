"""How unlike the training data an input is."""
