"""Record the sessions that ship in `assets/recordings`."""
