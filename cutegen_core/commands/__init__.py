"""Carry out the commands of the command line: each returns its exit code, and with `--json` prints one document."""
