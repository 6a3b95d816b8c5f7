"""The compiled half of the package; `bytepath` offers it."""

__version__: str
