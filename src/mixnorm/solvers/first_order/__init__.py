"""Proximal-gradient methods: restarted FISTA, and the forward-backward algorithm of the paper."""
