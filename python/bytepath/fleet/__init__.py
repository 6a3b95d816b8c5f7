"""bytepath on many machines at once, by way of Dask: `bytepath fleet bench|tune|doctor|compare|cp`.

The scheduler and the workers are Dask's; what is measured and moved is done on each machine by the
`bytepath` program there. This package shares the work out, and keeps account of it.
"""
