"""Sample batches of neighbourhoods and prepare them in threads."""
