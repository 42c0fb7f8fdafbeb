"""What a candidate costs: interleaved timing against baselines, rooflines, the profiler and the sanitizer."""
