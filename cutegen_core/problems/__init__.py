"""Problems: built-in, saved, edited and checked (lint)."""
