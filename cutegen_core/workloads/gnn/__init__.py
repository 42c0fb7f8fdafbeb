"""Train graph neural networks on sampled neighbourhoods, after SALIENT (Kaler et al., MLSys 2022)."""
