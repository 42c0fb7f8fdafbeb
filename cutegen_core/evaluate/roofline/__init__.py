"""Bound how fast a problem can be on a device, from counted work and measured peaks."""
