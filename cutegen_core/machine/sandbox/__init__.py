"""Confine a child process: file system rules (Landlock), a system-call filter and resource limits."""
