"""What is minimised: stacks of problems, groups, losses, penalties, metrics, and the certificate of a solution."""
