"""Measure the timer and the tuner themselves."""
