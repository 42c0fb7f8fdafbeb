"""Count what the judge misses, and what trials leave behind."""
