"""Newton's method on a whole stack of problems at once, for arrays of any library."""
