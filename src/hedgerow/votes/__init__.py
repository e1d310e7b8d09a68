"""What members say of candidate labels, and the measures read from it."""
