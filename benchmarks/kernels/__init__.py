"""Time the kernels that the playbook or a person writes, in turns with those of torch."""
