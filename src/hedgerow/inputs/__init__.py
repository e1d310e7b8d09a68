"""What users give: matrices, labels, texts; and the threads that read them."""
