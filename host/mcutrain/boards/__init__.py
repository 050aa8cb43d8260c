"""Boards: what they are (`table`), how firmware is built for them and where it runs."""
