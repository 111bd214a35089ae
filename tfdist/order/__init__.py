"""Which samples make up global batch t, and which replica gets which of them. Pure: sizes and seeds in, indices out."""
