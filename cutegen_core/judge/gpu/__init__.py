"""The judge on the GPU: `client` talks to the processes started from `main`."""
