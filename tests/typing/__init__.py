"""Checked by mypy, not run: an ignored error that is none fails, and so does any other."""
