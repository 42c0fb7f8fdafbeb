"""The CuTeGen strategy: one evolving kernel, one idea a step."""
