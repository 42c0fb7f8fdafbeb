"""Run end-to-end programs in which verified kernels are used, each as a process of its own."""
