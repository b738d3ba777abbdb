"""Readers and writers, one module a format; `modgap.io.file_formats` lists them."""

__all__: list[str] = []
