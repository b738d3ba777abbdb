"""What every package stands on: errors, the door, files, threads, results."""
