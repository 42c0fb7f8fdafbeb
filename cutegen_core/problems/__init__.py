"""What is to be made fast: built-in, saved, edited and linted problems."""
