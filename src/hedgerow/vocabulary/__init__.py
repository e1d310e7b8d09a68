"""Labels as things with names: which terms are broader than which."""
