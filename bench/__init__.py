"""Benchmarks of Hedgerow against the other XMC libraries, in the same run on the same machine."""
