"""A folder of models at a URL, and the folders on machines that follow it."""
