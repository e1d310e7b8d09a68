"""How members are trained: settings, blocks, memory, checkpoints."""
