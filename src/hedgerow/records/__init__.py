"""What a model was trained on, kept for updates: records, their labels, and when each came or left."""
