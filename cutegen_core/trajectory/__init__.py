"""What happened: events, folded to a state and kept in one SQLite store."""
