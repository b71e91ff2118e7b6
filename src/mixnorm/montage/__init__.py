"""Which electrodes are needed: constraints, orders, scoring, recommendation."""
