"""Label trees, the models over them, and the search through a forest."""
