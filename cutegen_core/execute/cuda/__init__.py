"""Run kernels on a GPU through the CUDA driver, in torch-free processes on memory that another process owns.

    engine (no CUDA) --pipes--> host, owns the tensors of TEST --- socket, fds ---> runner: one candidate, one trial
           `--------- socket--> judge (torch), owns those of BENCHMARK --- fds ---> runner
           `--------- plain --> standalone: exact allocations, under ncu or compute-sanitizer

A candidate can reach only its own tensors: inputs are mapped read-only; each tensor is followed by unmapped addresses
and preceded by a checked pattern; no expected value is ever in its context; and when the context ends, everything in it
is freed.

Sandbox, tested on an H200 (driver 580, CUDA 13.0, Linux 6.18) as root and as the user nobody. The driver needs files
until its context exists: under Landlock it starts only if its devices (with ioctl), /dev/null, /dev/shm and /proc/self
are writable. After that it needs no file: under the strictest system-call filter (`confine.seal`: no file, socket,
program or other process) modules load, kernels of every kind launch and print, and memory of other processes can be
imported. A runner is therefore sealed before it receives a candidate, and Landlock would have nothing left to deny.
Two things are not limited: the address space (the driver reserves hundreds of gigabytes), and what a kernel does inside
its own context.
"""
