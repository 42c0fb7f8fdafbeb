"""Matrix products: square, transposed, batched, fused, and matrix times vector."""
