"""Windows that slide over an image: convolutions and poolings, of one to three dimensions.

1. `geometry` has the window along one dimension, with its symbolic extents.
2. `values` are a convolution and a pooling as values; `rules.images.windows` makes them of ATen's operations.
3. `kernels` gives the templates what they read, `launches` writes each level.
"""
