"""Newton's method for one problem at a time, in NumPy."""
