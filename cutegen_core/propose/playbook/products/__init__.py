"""Write matrix products: on the SIMT path (`simt`), on tensor cores (`tensor_cores`); which suit is in `menu`."""
