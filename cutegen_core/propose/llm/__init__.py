"""Language models: settings, keys, budget and the streaming call."""
