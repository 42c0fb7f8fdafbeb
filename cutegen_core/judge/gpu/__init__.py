"""Judge on the GPU: `client` talks to the processes that `main` starts."""
