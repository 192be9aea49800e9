"""Work side by side: processes of this machine, and machines of a Dask cluster."""
