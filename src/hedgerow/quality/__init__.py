"""How good the best labels of an input are expected to be."""
