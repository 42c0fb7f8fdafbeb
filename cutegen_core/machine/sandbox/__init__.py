"""Shut a child process in: file system rules (Landlock), a system-call filter and resource limits."""
