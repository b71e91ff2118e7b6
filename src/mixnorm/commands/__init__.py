"""Subcommands of `mixnorm`, one module each."""
