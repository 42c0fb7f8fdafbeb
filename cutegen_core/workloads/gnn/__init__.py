"""Train graph neural networks on sampled neighbourhoods, after SALIENT (Kaler et al., MLSys 2022)."""

import os

# Torch's threads wait for one another by spinning, which on a busy machine takes the processors away from the threads
# that prepare batches: an epoch took up to 50 times as long. Read by OpenMP when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
