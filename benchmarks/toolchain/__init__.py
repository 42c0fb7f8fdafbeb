"""Time compiling, and the way from an edit to its verdict."""
