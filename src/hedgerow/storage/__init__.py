"""Files that are whole or not there, and the container of models."""
