"""The same candidates and the same inputs on the emulator and on a GPU.

1. `corpus` lists the candidates: every variant of the playbook for every built-in problem, and hand-written kernels of
   the classes the playbook lacks, wrong ones among them.
2. `emulate` needs no GPU: inputs from the reference worker, the emulator's verdict and outputs, and NVIDIA's cubin of
   each go into a folder that can travel.
3. `device` needs the folder and a GPU, but neither torch nor the emulator: the same cubins over the same inputs.
4. `report` holds the two against one another, element by element, and has the reference judge the GPU's outputs.

    python -m benchmarks.crosscheck emulate          here or there, once
    python -m benchmarks.crosscheck gpu              on the machine with the GPU
    python -m benchmarks.crosscheck report           where `emulate` ran
"""
