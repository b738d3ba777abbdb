"""Damaged files through the command line: no traceback, no kill, no NaN out.

``make fuzz`` runs for MODGAP_FUZZ seconds, ``python -m fuzz --replay npy:17`` one case again.
"""
