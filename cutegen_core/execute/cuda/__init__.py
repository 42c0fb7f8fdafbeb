"""Kernels on a GPU through the CUDA driver, in torch-free processes over memory that somebody else owns.

    engine (no CUDA) --pipes--> host, owns the tensors of TEST --- socket, fds ---> runner: one candidate, one trial
           `--------- socket--> judge (torch), owns those of BENCHMARK --- fds ---> runner
           `--------- plain --> standalone: exact allocations, under ncu or compute-sanitizer

What reaches a candidate: inputs are mapped read-only, every tensor ends at unmapped addresses with a checked pattern in
front, no expected value is ever in its context, and the context's end takes everything with it.

Walls, tried out on an H200 (driver 580, CUDA 13.0, Linux 6.18) as root and as nobody. The driver needs files until its
context stands: below Landlock it starts only where its devices (with ioctl), /dev/null, /dev/shm and /proc/self may be
written. After that it needs none: under the strictest system-call filter (`confine.seal`: no file, socket, program or
other process) modules load, kernels of every kind launch and print, and memory of other processes is imported. So a
runner is sealed before it knows its candidate, and Landlock would have nothing left to deny. Not limited: the address
space (the driver reserves hundreds of gigabytes of it), and what a kernel does inside its own context.
"""
