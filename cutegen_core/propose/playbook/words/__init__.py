"""Words in and out: what a person asks of the menu (`redirects`), which parts of CuTe a kernel uses (`features`)."""
