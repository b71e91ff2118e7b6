"""Newton's method for the path of a small problem of one subject, in the Gram matrix of its trials."""
