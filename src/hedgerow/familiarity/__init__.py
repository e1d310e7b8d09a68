"""Detection of out-of-distribution (OOD) inputs."""
