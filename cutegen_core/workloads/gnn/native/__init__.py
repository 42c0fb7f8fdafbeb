"""Native code of the GNN workload: the sampler, the builder of rows and the generators, in C behind a plain ABI."""
