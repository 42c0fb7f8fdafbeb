"""Sessions in and out: exports, imports and slides."""
