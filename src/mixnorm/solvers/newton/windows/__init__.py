"""Newton's method for sensors and windows chosen together, one problem at a time, in NumPy."""
