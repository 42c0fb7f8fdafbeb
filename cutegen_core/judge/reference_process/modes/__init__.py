"""Record what a reference does in other operations than PyTorch would, so that a trace says more, or ends at all."""
