"""From what members say to probabilities that come true."""
