"""Past one machine: the same work on engines people run, and the monitor of a live stream."""
