"""Benchmarks of the GNN workload."""
